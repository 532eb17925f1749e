package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hijackable is a response whose connection can be taken over.
type hijackable struct {
	*httptest.ResponseRecorder
	conn     net.Conn
	hijacked bool
}

func (h *hijackable) Write(p []byte) (int, error) {
	if h.hijacked {
		return 0, http.ErrHijacked
	}
	return h.ResponseRecorder.Write(p)
}

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.hijacked = true
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// webSocket requests a WebSocket and returns what was sent over the connection.
func webSocket(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	client, conn := net.Pipe()
	defer client.Close()
	sent := make(chan string)
	go func() {
		all, _ := io.ReadAll(client) // ends with the connection
		sent <- string(all)
	}()
	r := httptest.NewRequest("GET", path, nil)
	for name, value := range map[string]string{"Authorization": "known", "Origin": "http://example.com", "Connection": "Upgrade", "Upgrade": "websocket",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		r.Header.Set(name, value)
	}
	h.ServeHTTP(&hijackable{ResponseRecorder: httptest.NewRecorder(), conn: conn}, r)
	conn.Close()
	return <-sent
}

// A request whose connection another protocol takes over is counted without a code, as by kube-apiserver, and one that fails before with its code. The
// events of such a watch are not counted.
func TestHijackedConnectionsAreCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	const path = "/api/v1/namespaces?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
	if sent := webSocket(t, h, path); !strings.HasPrefix(sent, "HTTP/1.1 101 ") || strings.Count(sent, `"ADDED"`) != 4 {
		t.Errorf("%q was sent", sent)
	}
	webSocket(t, h, path+"&limit=x")
	body := get(h, "/metrics", "known").Body.String()
	for _, code := range []string{"0", "400"} {
		wantLine(t, body, `apiserver_request_total{code="`+code+`",component="apiserver",dry_run="",group="",resource="namespaces",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`)
	}
	if of := `{group="",resource="namespaces",`; strings.Contains(body, "apiserver_watch_events_total"+of) || strings.Contains(body, "apiserver_watch_list_duration_seconds_count"+of) {
		t.Error("the events of a watch over WebSocket are counted")
	}
}
