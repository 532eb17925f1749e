package handlers_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// socket is a watch over a WebSocket.
type socket struct {
	*api
	*websocket.Conn
}

// dial opens a watch over a WebSocket.
func (a *api) dial(s *httptest.Server, path, accept string, protocols ...string) (*socket, error) {
	a.Helper()
	u, err := url.Parse(s.URL + a.fill(path))
	if err != nil {
		a.Fatal(err)
	}
	u.Scheme = "wss"
	ws, err := websocket.DialConfig(&websocket.Config{Location: u, Origin: &url.URL{Scheme: "https", Host: "example.com"},
		Version: websocket.ProtocolVersionHybi13, Protocol: protocols, Header: http.Header{"Accept": {accept}},
		TlsConfig: &tls.Config{InsecureSkipVerify: true}}) // not under test
	if err != nil {
		return nil, err
	}
	a.Cleanup(func() { ws.Close() })
	if err := ws.SetDeadline(time.Now().Add(patience)); err != nil {
		a.Fatal(err)
	}
	return &socket{api: a, Conn: ws}, nil
}

// message is a message, with its type.
type message struct {
	data []byte
	text bool
}

var wholeMessage = websocket.Codec{Unmarshal: func(data []byte, payload byte, v any) error {
	*v.(*message) = message{data, payload == websocket.TextFrame}
	return nil
}}

func (s *socket) next() message {
	s.Helper()
	var m message
	if err := wholeMessage.Receive(s.Conn, &m); err != nil {
		s.Fatalf("the watch ended: %v", err)
	}
	return m
}

const configMapWatch = "/api/v1/namespaces/test/configmaps?watch=1&fieldSelector=metadata.name=c"

// "Efficient detection of changes" over a WebSocket: a message is one event. Text formats arrive as text.
func TestWebSocketWatch(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	a.run(exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"c"},"data":{"a":"1"}}`, code: 201})

	plain, err := a.dial(s, configMapWatch, "")
	if err != nil {
		t.Fatal(err)
	}
	table, err := a.dial(s, configMapWatch, "application/json;as=Table;g=meta.k8s.io;v=v1", "base64.binary.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Config().Protocol; len(got) != 1 || got[0] != "base64.binary.k8s.io" {
		t.Errorf("the protocol is %q", got)
	}
	binary, err := a.dial(s, configMapWatch, "application/vnd.kubernetes.protobuf")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []string{"ADDED", "MODIFIED"} {
		for _, ws := range []*socket{plain, table} {
			m := ws.next()
			if !m.text || !strings.HasSuffix(string(m.data), "}\n") || gjson.GetBytes(m.data, "type").Str != typ {
				t.Errorf("text: %t, %s", m.text, m.data)
			}
		}
		// The message is only the WatchEvent, without the length prefix of a byte stream.
		m, event := binary.next(), metav1.WatchEvent{}
		if err := event.Unmarshal(m.data); err != nil || m.text || event.Type != typ || !strings.HasPrefix(string(event.Object.Raw), "k8s\x00") {
			t.Errorf("text: %t, %v, %q", m.text, err, m.data)
		}
		a.run(exchange{do: "PATCH /api/v1/namespaces/test/configmaps/c", header: asMergePatch, body: `{"data":{"a":"2"}}`, code: 200})
	}
}

// Errors of a request come before the WebSocket; a problem with the revision is an event.
func TestWebSocketRefusals(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	upgrade := says{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
	with := func(name, value string) says {
		h := says{name: value}
		for k, v := range upgrade {
			if k != name {
				h[k] = v
			}
		}
		return h
	}
	for _, e := range []exchange{
		{shows: "no origin", do: "GET " + configMapWatch, header: upgrade, code: 403},
		{shows: "version", do: "GET " + configMapWatch, header: with("Sec-WebSocket-Version", "8"), code: 400, answer: says{"Sec-WebSocket-Version": "13"}},
		{shows: "encoding", do: "GET " + configMapWatch, header: with("Accept", "application/yaml"), code: 406},
		{shows: "options", do: "GET " + configMapWatch + "&limit=x", header: upgrade, code: 400},
		{shows: "no watch", do: "GET /api/v1/namespaces/test/configmaps", header: upgrade, code: 200, says: says{"kind": "ConfigMapList"}},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+strings.TrimPrefix(e.do, "GET "), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range e.header {
			r.Header.Set(name, value)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} // HTTP/1.1
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		a.check(e, response)
		response.Body.Close()
	}
	if _, err := a.dial(s, configMapWatch, "", "one", "another"); err == nil {
		t.Error("a choice of protocols that stand for nothing is accepted")
	}
	early, err := a.dial(s, configMapWatch+"&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "")
	if err != nil {
		t.Fatal(err)
	}
	if m := early.next(); gjson.GetBytes(m.data, "type").Str != "BOOKMARK" {
		t.Errorf("the first event is %s", m.data)
	}
}

// A client's close frame is answered by one. Other messages are ignored, and pings are answered.
func TestWebSocketClient(t *testing.T) {
	a := newAPI(t)
	ws, err := a.dial(a.listen(), configMapWatch, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := websocket.Message.Send(ws.Conn, strings.Repeat("x", 100_000)); err != nil {
		t.Fatal(err)
	}
	ping, err := ws.NewFrameWriter(websocket.PingFrame)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ping.Write([]byte("there?")); err != nil {
		t.Fatal(err)
	}
	pong, err := ws.NewFrameReader()
	if err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(pong); err != nil || pong.PayloadType() != websocket.PongFrame || string(said) != "there?" {
		t.Errorf("the answer to a ping is %q of type %d, %v", said, pong.PayloadType(), err)
	}
	if err := ws.WriteClose(1000); err != nil {
		t.Fatal(err)
	}
	end, err := ws.NewFrameReader()
	if err != nil {
		t.Fatal(err)
	}
	if end.PayloadType() != websocket.CloseFrame {
		t.Errorf("the answer to a close is of type %d", end.PayloadType())
	}
}

// The timeout of a watch ends it with a close frame.
func TestWebSocketTimeout(t *testing.T) {
	a := newAPI(t)
	ws, err := a.dial(a.listen(), configMapWatch+"&timeoutSeconds=1", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := wholeMessage.Receive(ws.Conn, &message{}); !errors.Is(err, io.EOF) {
		t.Errorf("the watch ended with %v", err)
	}
}
