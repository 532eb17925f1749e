package handlers_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/handlers"
)

// startKubelet starts a substitute for the kubelet of node "n", which runs pod "p".
func (a *api) startKubelet(answer http.HandlerFunc) {
	kubelet := httptest.NewTLSServer(answer)
	a.Cleanup(kubelet.Close)
	at, err := url.Parse(kubelet.URL)
	if err != nil {
		a.Fatal(err)
	}
	a.run(
		exchange{do: "POST /api/v1/nodes", body: `{"metadata":{"name":"n"}}`, code: 201},
		exchange{do: "PATCH /api/v1/nodes/n/status", header: asMergePatch, code: 200, body: fmt.Sprintf(
			`{"status":{"addresses":[{"type":"InternalIP","address":%q}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%s}}}}`, at.Hostname(), at.Port())},
		exchange{do: "POST /api/v1/namespaces/test/pods", code: 201,
			body: `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`},
	)
}

// A log is forwarded from the kubelet as it arrives.
func TestLogFromKubelet(t *testing.T) {
	a := newAPI(t)
	more := make(chan struct{})
	a.startKubelet(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/containerLogs/test/p/c" || r.URL.Query().Get("follow") != "true" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintln(w, "one")
		w.(http.Flusher).Flush()
		<-more
		fmt.Fprintln(w, "two")
	})
	server := a.listen()
	response, err := server.Client().Get(server.URL + "/api/v1/namespaces/test/pods/p/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if typ := response.Header.Get("Content-Type"); response.StatusCode != 200 || typ != "text/plain" {
		t.Fatalf("%d %s", response.StatusCode, typ)
	}
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); line != "one\n" {
		t.Fatalf("%q %v", line, err)
	}
	close(more)
	if rest, err := io.ReadAll(lines); string(rest) != "two\n" {
		t.Errorf("%q %v", rest, err)
	}
	a.run(exchange{shows: "an error of the kubelet", do: "GET /api/v1/namespaces/test/pods/p/log", code: 404,
		says: says{"message": "the server could not find the requested resource ( pods/log p)"}})
}

// An upgraded connection is forwarded to the kubelet in both directions.
func TestExecOnKubelet(t *testing.T) {
	a := newAPI(t)
	a.startKubelet(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/exec/test/p/c" || r.URL.RawQuery != "command=ls&output=1" || r.Header.Get("Upgrade") != "SPDY/3.1" {
			http.Error(w, r.URL.String(), http.StatusBadRequest)
			return
		}
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
		line, _ := buffered.ReadString('\n') // the test fails below if the line is wrong
		fmt.Fprint(conn, strings.ToUpper(line))
	})
	server := a.listen()
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /api/v1/namespaces/test/pods/p/exec?command=ls&stdout=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	from := bufio.NewReader(conn)
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(response.Body) // the text of an error
		t.Fatalf("%d %s", response.StatusCode, text)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := from.ReadString('\n'); line != "HELLO\n" {
		t.Errorf("%q %v", line, err)
	}
}

// leadsTo is a proxy to a loopback address, which upstream's proxies reject.
type leadsTo struct {
	rest.Connecter
	*url.URL
}

func (l leadsTo) Connect(_ context.Context, _ string, options runtime.Object, r rest.Responder) (http.Handler, error) {
	location := *l.URL
	location.Path = options.(*core.NodeProxyOptions).Path
	return proxy.NewUpgradeAwareHandler(&location, http.DefaultTransport, true, false, proxy.NewErrorResponder(r)), nil
}

// proxyNodes starts the target of proxies to nodes.
func (a *api) proxyNodes(answer http.HandlerFunc) {
	backend := httptest.NewServer(answer)
	a.Cleanup(backend.Close)
	at, err := url.Parse(backend.URL)
	if err != nil {
		a.Fatal(err)
	}
	nodes, ok := a.registry.Catalog().Lookup(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	if !ok {
		a.Fatal("no nodes")
	}
	sub := nodes.Subresources["proxy"]
	upstream := sub.Connect
	sub.Connect = func(s resources.Reader) rest.Connecter { return leadsTo{upstream(s), at} }
}

// readyToFollow responds with one line, and then waits until the client has disconnected.
func readyToFollow(gone chan<- struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "one")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}
}

// awaitGone waits until the kubelet's client has disconnected.
func awaitGone(t *testing.T, gone <-chan struct{}) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the kubelet's answer is still read")
	}
}

const followedLog = "/api/v1/namespaces/test/pods/p/log?follow=true"

// A log is also available over a WebSocket: an empty message, then the kubelet's text.
func TestLogOverWebSocket(t *testing.T) {
	a := newAPI(t)
	a.startKubelet(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "one") })
	server := a.listen()
	for protocol, want := range map[string]message{"": {data: []byte("one\n")}, "binary.k8s.io": {data: []byte("one\n")},
		"base64.binary.k8s.io": {data: []byte("b25lCg=="), text: true}} {
		protocols := []string{"unknown.k8s.io", protocol}
		if protocol == "" {
			protocols = nil
		}
		ws, err := a.dial(server, followedLog, "", protocols...)
		if err != nil {
			t.Fatal(err)
		}
		if m := ws.next(); len(m.data) != 0 || m.text != want.text {
			t.Errorf("%q: the first message is %q, text: %t", protocol, m.data, m.text)
		}
		if m := ws.next(); string(m.data) != string(want.data) || m.text != want.text {
			t.Errorf("%q: %q, text: %t", protocol, m.data, m.text)
		}
		if rest, err := io.ReadAll(ws); err != nil || len(rest) != 0 {
			t.Errorf("%q: %q %v", protocol, rest, err)
		}
	}
}

// After a rejected handshake or a disconnect, the connection to the kubelet is closed.
func TestLogSocketEnds(t *testing.T) {
	a := newAPI(t)
	gone := make(chan struct{}, 1)
	a.startKubelet(readyToFollow(gone))
	server := a.listen()
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for shows, test := range map[string]struct {
		header string
		code   int
	}{
		"no key":              {"Sec-WebSocket-Version: 13\r\n", 400},
		"an old version":      {"Sec-WebSocket-Version: 8\r\n" + key, 400},
		"an unknown protocol": {"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: unknown.k8s.io\r\n" + key, 403},
		"a client that goes":  {"Sec-WebSocket-Version: 13\r\n" + key, 101},
	} {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%s\r\n", followedLog, test.header)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != test.code {
			t.Fatalf("%s: %v %v", shows, response, err)
		}
		if test.code == http.StatusSwitchingProtocols {
			conn.Close()
		}
		awaitGone(t, gone)
		conn.Close()
	}
}

// An interim response of a proxy target is not taken for the final one.
func TestProxiedInterimAnswers(t *testing.T) {
	a := newAPI(t)
	a.proxyNodes(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		body, _ := io.ReadAll(r.Body) // sends 100 first; the test fails below if the body is wrong
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	})
	server := a.listen()
	for _, test := range []struct {
		path, body string
		code       int
		interim    int
	}{{"hints", "", 404, 103}, {"continue", "hello", 201, 100}} {
		var interim []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			interim = append(interim, code)
			return nil
		}})
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/api/v1/nodes/n/proxy/"+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if test.body != "" {
			r.Header.Set("Expect", "100-continue")
		}
		// Use HTTP/1.1, and a timeout so long that the body is sent only after the 100.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ExpectContinueTimeout: patience}
		defer transport.CloseIdleConnections()
		response, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != test.code || string(body) != test.body {
			t.Errorf("%s: %d %q %v", test.path, response.StatusCode, body, err)
		}
		if !slices.Contains(interim, test.interim) {
			t.Errorf("%s: interim answers %d, want %d", test.path, interim, test.interim)
		}
	}
}

// A shutdown ends endless responses: it ends a followed log cleanly, and cuts a proxied response, because it may be incomplete.
func TestConnectionsDrain(t *testing.T) {
	for path, want := range map[string]error{followedLog: nil, "/api/v1/namespaces/test/pods/p/log": io.ErrUnexpectedEOF,
		"/api/v1/nodes/n/proxy/x": io.ErrUnexpectedEOF} {
		a := newAPI(t)
		gone := make(chan struct{}, 1)
		a.startKubelet(readyToFollow(gone))
		a.proxyNodes(readyToFollow(gone))
		draining := make(chan struct{})
		server := a.hasty(draining)
		response, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		close(draining)
		awaitGone(t, gone)
		if text, err := io.ReadAll(response.Body); !errors.Is(err, want) {
			t.Errorf("%s: %q %v, want %v", path, text, err, want)
		}
	}
}

// A shutdown does not wait for a target that has not begun to respond.
func TestProxyDrainsUnanswered(t *testing.T) {
	a := newAPI(t)
	draining := make(chan struct{})
	a.proxyNodes(func(_ http.ResponseWriter, r *http.Request) {
		close(draining)
		<-r.Context().Done()
	})
	h := handlers.New(handlers.Config{Registry: a.registry, Store: a.store, Pipeline: resources.NewPipeline(a.store, resources.PipelineOptions{}), Logger: slog.New(slog.DiscardHandler), Draining: draining})
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, Path: "/api/v1/nodes/n/proxy/x", Verb: "get", APIPrefix: "api",
		APIVersion: "v1", Resource: "nodes", Subresource: "proxy", Name: "n", Parts: []string{"nodes", "n", "proxy", "x"}}
	r := httptest.NewRequest("GET", info.Path, nil)
	r = r.WithContext(genericapirequest.WithRequestInfo(t.Context(), info))
	if err := h.Serve(httptest.NewRecorder(), r, info); !apierrors.IsServiceUnavailable(err) {
		t.Error(err)
	}
}

// A shutdown does not wait for a log over a WebSocket either.
func TestLogSocketDrains(t *testing.T) {
	a := newAPI(t)
	gone := make(chan struct{}, 1)
	a.startKubelet(readyToFollow(gone))
	draining := make(chan struct{})
	server := a.hasty(draining)
	ws, err := websocket.Dial("ws"+strings.TrimPrefix(server.URL, "http")+followedLog, "", "http://example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	close(draining)
	awaitGone(t, gone)
	if text, err := io.ReadAll(ws); err != nil {
		t.Errorf("%q %v", text, err)
	}
}

// A request is forwarded only with the verb that was authorized: neither a write below /watch/, which is authorized as a watch, nor a proxy request
// without a name, which is authorized as a list.
func TestConnectTakesItsOwnVerbs(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST /api/v1/nodes", body: `{"metadata":{"name":"n"}}`, code: 201})
	var reached []string
	a.proxyNodes(func(_ http.ResponseWriter, r *http.Request) { reached = append(reached, r.Method+" "+r.URL.Path) })
	for _, do := range []string{"POST /api/v1/watch/nodes/n/proxy/x", "GET /api/v1/watch/nodes/n/proxy/x", "DELETE /api/v1/watch/nodes/n/proxy/x",
		"GET /api/v1/nodes//proxy?fieldSelector=metadata.name=n", "GET /api/v1/nodes//proxy?watch=1&fieldSelector=metadata.name=n"} {
		method, path, _ := strings.Cut(do, " ")
		if code, body := a.request(method, path, "", nil); code < http.StatusBadRequest || len(reached) > 0 {
			t.Errorf("%s: %d %s, reached %q", do, code, body, reached)
		}
	}
	if code, body := a.request("GET", "/api/v1/nodes/n/proxy/x", "", nil); code != http.StatusOK || len(reached) != 1 {
		t.Errorf("%d %s, reached %q", code, body, reached)
	}
}
