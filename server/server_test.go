package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/net/websocket"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/servertest"
)

const patience = 2 * time.Minute

// newServer returns a server with the users of servertest.Authenticate.
func newServer(t testing.TB, change func(*server.Config)) *server.Server {
	t.Helper()
	s, c := servertest.New(t, change)
	plane := controlplane.New(controlplane.Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Front: s})
	if err := plane.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// serve makes a server serve on loopback, without TLS, until stop; done then receives the result of Serve.
func serve(t *testing.T, s *server.Server) (address string, stop context.CancelFunc, done <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	return l.Addr().String(), stop, served
}

var get = servertest.Get

// Where anonymous clients are not allowed, they cannot read the health paths either.
func TestAnonymous(t *testing.T) {
	h := newServer(t, nil).Handler()
	for path, want := range map[string]int{"/version": 401, "/healthz": 401, "/livez/ping": 401, "/readyz": 401, "/api": 401, "/apis": 401, "/metrics": 401,
		"/api/v1/namespaces": 401, "/openapi/v2": 401, "/nowhere": 401, "/healthzy": 401, "/version/x": 401, "/debug/pprof/": 401} {
		if got := get(h, path, "").Code; got != want {
			t.Errorf("%s to an anonymous client: %d, want %d", path, got, want)
		}
		if got := get(h, path, "forged").Code; got != 401 {
			t.Errorf("%s with bad credentials: %d", path, got)
		}
	}
	w := get(h, "/api/v1/namespaces", "")
	if got := w.Body.String(); got != `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`+"\n" {
		t.Errorf("the answer is %s", got)
	}
	if w := get(h, "/api/v1/namespaces/default", "known"); w.Code != 200 || w.Header().Get("Audit-Id") == "" || w.Header().Get("Cache-Control") != "no-cache, private" {
		t.Errorf("to somebody known: %d, %v", w.Code, w.Header())
	}
}

// blockedStore blocks reads.
type blockedStore struct {
	resources.View
	waiting, release chan struct{}
}

func (s *blockedStore) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if key.Name == "slow" {
		s.waiting <- struct{}{}
		select {
		case <-s.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.View.Get(ctx, key, at)
}

func blocked(c *server.Config) *blockedStore {
	b := &blockedStore{View: c.Store, waiting: make(chan struct{}, 1), release: make(chan struct{})}
	c.Store = b
	return b
}

// Without priority and fairness, requests in excess of the limit get 429; reads and writes have separate limits.
func TestOverload(t *testing.T) {
	var store *blockedStore
	h := newServer(t, func(c *server.Config) {
		c.MaxInFlight, c.Unfair = 1, true
		store = blocked(c)
	}).Handler()
	first := make(chan int)
	go func() { first <- get(h, "/api/v1/namespaces/slow", "known").Code }()
	<-store.waiting
	w := get(h, "/api/v1/namespaces/default", "known")
	if w.Code != 429 || w.Header().Get("Retry-After") != "1" || w.Body.String() != "Too many requests, please try again later.\n" {
		t.Errorf("the second answer is %d, %v, %s", w.Code, w.Header(), w.Body)
	}
	if code := get(h, "/api/v1/namespaces/default", "master").Code; code != 200 {
		t.Errorf("an administrator, who is exempt, gets %d", code)
	}
	r := httptest.NewRequest("POST", "/api/v1/namespaces", strings.NewReader(`{"metadata":{"name":"n"}}`))
	r.Header.Set("Authorization", "known")
	write := httptest.NewRecorder()
	h.ServeHTTP(write, r)
	if write.Code != 201 {
		t.Errorf("a write meanwhile: %d", write.Code)
	}
	close(store.release)
	if code := <-first; code != 404 {
		t.Errorf("the first answer is %d", code)
	}
	if code := get(h, "/api/v1/namespaces/default", "known").Code; code != 200 {
		t.Errorf("afterwards: %d", code)
	}
}

// The server does not wait for a missing body longer than the request's timeout.
func TestBodyThatNeverComes(t *testing.T) {
	s := httptest.NewServer(newServer(t, func(c *server.Config) { c.RequestTimeout = 50 * time.Millisecond }).Handler())
	defer s.Close()
	ask := func(request string) *http.Response {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		return response
	}
	for _, length := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		ask("GET /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\n" + length).Body.Close() // the body of a GET is not read
		response := ask("POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nAuthorization: known\r\n" + length)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		const want = "request did not complete within the allotted timeout"
		if err != nil || response.StatusCode != 504 || gjson.GetBytes(body, "message").Str != "Timeout: "+want || response.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") != "" {
			t.Errorf("%s: %d %v %s (%v)", length, response.StatusCode, response.Header, body, err)
		}
	}
}

// A server that is stopping ends its watches, finishes requests in flight, and reports that it is not ready.
func TestDrain(t *testing.T) {
	var store *blockedStore
	s := newServer(t, func(c *server.Config) { store = blocked(c) })
	address, stop, done := serve(t, s)

	ask := func(path string) *http.Response {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "known")
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			return &http.Response{Body: http.NoBody}
		}
		return response
	}
	watch := ask("/api/v1/namespaces/default/configmaps?watch=1")
	defer watch.Body.Close()
	slow := make(chan int, 1)
	go func() {
		response := ask("/api/v1/namespaces/slow")
		response.Body.Close()
		slow <- response.StatusCode
	}()
	<-store.waiting
	stop()
	if rest, err := io.ReadAll(watch.Body); err != nil || len(rest) != 0 {
		t.Errorf("the watch ends with %q, %v", rest, err)
	}
	if code := get(s.Handler(), "/readyz", "known").Code; code != 500 {
		t.Errorf("/readyz while draining: %d", code)
	}
	if code := get(s.Handler(), "/livez", "known").Code; code != 200 {
		t.Errorf("/livez while draining: %d", code)
	}
	close(store.release)
	if code := <-slow; code != 404 {
		t.Errorf("the request under way: %d", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A WebSocket client that reads nothing delays a shutdown only until the DrainTimeout.
func TestDrainCutsWebSockets(t *testing.T) {
	s := newServer(t, func(c *server.Config) { c.DrainTimeout = 100 * time.Millisecond })
	for i := range 16 { // more than the buffers of a connection hold
		body := fmt.Sprintf(`{"metadata":{"name":"c%d"},"data":{"a":"%s"}}`, i, strings.Repeat("x", 1<<20-1))
		r := httptest.NewRequest("POST", "/api/v1/namespaces/default/configmaps", strings.NewReader(body))
		r.Header.Set("Authorization", "known")
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != 201 {
			t.Fatal(w.Body)
		}
	}
	address, stop, done := serve(t, s)
	c, err := websocket.NewConfig("ws://"+address+"/api/v1/namespaces/default/configmaps?watch=1", "http://example.com")
	if err != nil {
		t.Fatal(err)
	}
	c.Header.Set("Authorization", "known")
	ws, err := websocket.DialConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The same requests work over HTTP/1.1 and HTTP/2, with and without a Content-Length.
func TestProtocols(t *testing.T) {
	s := httptest.NewUnstartedServer(newServer(t, nil).Handler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // not under test
		defer transport.CloseIdleConnections()
		for _, body := range []io.Reader{strings.NewReader(`{"metadata":{"generateName":"n-"}}`), io.MultiReader(strings.NewReader(`{"metadata":`), strings.NewReader(`{"generateName":"n-"}}`))} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/api/v1/namespaces", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "known")
			response, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != 201 || response.Proto != protocol {
				t.Errorf("%s: %s by %s", protocol, response.Status, response.Proto)
			}
		}
	}
}
