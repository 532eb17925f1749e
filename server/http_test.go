package server_test

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server"
)

// TestCORS checks that browsers allow requests from pages of the configured origins, preflight requests without credentials included.
func TestCORS(t *testing.T) {
	h := newServer(t, func(c *server.Config) {
		c.CORSAllowedOrigins, c.HSTSDirectives = []string{`//example\.com(:|$)`}, []string{"max-age=31536000", "includeSubDomains"}
	}).Handler()
	ask := func(method, origin, who string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, quick, nil)
		r.Header.Set("Origin", origin)
		if who != "" {
			r.Header.Set("Authorization", who)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Strict-Transport-Security"); got != "max-age=31536000; includeSubDomains" {
			t.Errorf("%s %s: Strict-Transport-Security: %q", method, origin, got)
		}
		return w
	}
	w := ask("OPTIONS", "https://example.com", "")
	want := http.Header{"Access-Control-Allow-Origin": {"https://example.com"}, "Access-Control-Allow-Methods": {"POST, GET, OPTIONS, PUT, DELETE, PATCH"},
		"Access-Control-Allow-Headers":     {"Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since"},
		"Access-Control-Allow-Credentials": {"true"}, "Access-Control-Expose-Headers": {"Date"}}
	for name, values := range want {
		if got := w.Header()[name]; w.Code != 204 || len(got) != 1 || got[0] != values[0] {
			t.Errorf("%d, %s: %q, want %q", w.Code, name, got, values)
		}
	}
	if w := ask("GET", "https://example.com:8443", "known"); w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") != "https://example.com:8443" {
		t.Errorf("GET: %d, %v", w.Code, w.Header())
	}
	for _, origin := range []string{"https://example.com.evil.org", "https://evil.org"} {
		if w := ask("OPTIONS", origin, ""); w.Code == 204 || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d, %v", origin, w.Code, w.Header())
		}
	}
}

// serveTLS makes a server serve HTTPS on loopback until stop.
func serveTLS(t *testing.T, change func(*server.Config)) (s *server.Server, address string, stop context.CancelFunc, done <-chan error) {
	t.Helper()
	given := httptest.NewUnstartedServer(nil)
	given.StartTLS() // to get its certificate
	certificates := given.TLS.Certificates
	given.Close()
	s = newServer(t, func(c *server.Config) {
		c.TLS = &tls.Config{Certificates: certificates, NextProtos: []string{"h2", "http/1.1"}}
		change(c)
	})
	address, stop, done = serve(t, s)
	return s, address, stop, done
}

// knownClient sends requests as an authenticated user, and counts its connections.
type knownClient struct {
	*http.Transport
	dialed atomic.Int32
}

func newKnownClient(t *testing.T) *knownClient {
	c := &knownClient{}
	c.Transport = &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // not under test
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c.dialed.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func (c *knownClient) get(t *testing.T, url string) (code int, proto string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "known")
	w, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if _, err := io.Copy(io.Discard, w.Body); err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, w.Proto, w.Header
}

// An HTTP/2 client opens another connection after a GOAWAY; with a server without HTTP/2, the client uses HTTP/1.1.
func TestGoaway(t *testing.T) {
	for chance, want := range map[float64]int{0: 1, 1: 3} {
		_, address, stop, done := serveTLS(t, func(c *server.Config) { c.GoawayChance = chance })
		c := newKnownClient(t)
		for range 3 {
			if code, proto, _ := c.get(t, "https://"+address+quick); code != 200 || proto != "HTTP/2.0" {
				t.Errorf("%d by %s", code, proto)
			}
		}
		if got := int(c.dialed.Load()); got != want {
			t.Errorf("with a chance of %v: %d connections, want %d", chance, got, want)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	_, address, stop, _ := serveTLS(t, func(c *server.Config) { c.WithoutHTTP2 = true })
	defer stop()
	if code, proto, _ := newKnownClient(t).get(t, "https://"+address+quick); code != 200 || proto != "HTTP/1.1" {
		t.Errorf("without HTTP/2: %d by %s", code, proto)
	}
}

// TestShutdownDelay checks that a stopping server reports that it is not ready, and goes on serving for a while. Then, with RetryAfter, it rejects
// new requests until those in flight are finished.
func TestShutdownDelay(t *testing.T) {
	var store *blockedStore
	s := newServer(t, func(c *server.Config) {
		c.ShutdownDelay, c.RetryAfter, c.HSTSDirectives = 3*time.Second, true, []string{"max-age=1"}
		store = blocked(c)
	})
	address, stop, done := serve(t, s)
	c := newKnownClient(t)
	first := make(chan int)
	go func() {
		code, _, _ := c.get(t, "http://"+address+slow)
		first <- code
	}()
	<-store.waiting
	stop()
	other := newKnownClient(t)
	for code := 200; code == 200; { // for a while, from now on
		code, _, _ = other.get(t, "http://"+address+"/readyz")
	}
	answered, refused := 0, 0
	for refused == 0 {
		switch code, _, h := other.get(t, "http://"+address+quick); {
		case code == 200:
			answered++
		case code == 429 && h.Get("Retry-After") == "5":
			refused++
		default:
			t.Fatalf("%d, %v", code, h)
		}
	}
	// The rejection comes before everything else: it has no other headers, it is no answer of the API to count, and no parameter is examined.
	code, _, h := other.get(t, "http://"+address+quick+"?timeout=soon")
	if got := slices.Sorted(maps.Keys(h)); code != 429 || !slices.Equal(got, []string{"Audit-Id", "Content-Length", "Content-Type", "Date", "Retry-After", "X-Content-Type-Options"}) {
		t.Errorf("a new request: %d, %v", code, h)
	}
	if answered == 0 {
		t.Error("nothing was answered while the end was delayed")
	}
	own, err := s.Client(&user.DefaultInfo{Name: "known", Groups: []string{user.AllAuthenticated}}, "part")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := own.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("a request of the server's own: %v", err)
	}
	counted, err := own.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil || strings.Contains(string(counted), `apiserver_request_total{code="429"`) {
		t.Errorf("rejected requests are counted (%v)", err)
	}
	close(store.release)
	if code := <-first; code != 404 {
		t.Errorf("the request that was under way: %d", code)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestShutdownAfterLeaving checks that a stopping server accepts new connections for as long as clients find it among the endpoints.
func TestShutdownAfterLeaving(t *testing.T) {
	left := make(chan struct{})
	s := newServer(t, func(c *server.Config) { c.Left = left })
	address, stop, done := serve(t, s)
	stop()
	for code := 200; code == 200; {
		code, _, _ = newKnownClient(t).get(t, "http://"+address+"/readyz")
	}
	if code, _, _ := newKnownClient(t).get(t, "http://"+address+quick); code != 200 {
		t.Errorf("a client that found the server among the endpoints got %d", code)
	}
	close(left)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
