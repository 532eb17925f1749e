package h2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const testStreams = 250

// plainServer serves h with golang.org/x/net/http2, ownServer with this package, over TLS.
func plainServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: testStreams}
	if err := http2.ConfigureServer(s.Config, nil); err != nil {
		t.Fatal(err)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func ownServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: testStreams}
	own := newServer(s.Config)
	s.Config.RegisterOnShutdown(own.shutdown)
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, h http.Handler) { own.serveTLS(c, h) },
	}
	s.StartTLS()
	t.Cleanup(func() {
		s.Close()
		own.ended()
	})
	return s
}

// ended waits until all goroutines of the server have ended: those of connections, handlers and idle workers.
func (s *server) ended() {
	s.serving.Wait()
	s.work.all.Wait()
}

// clients are the two HTTP/2 clients for Go.
func clients(t *testing.T) map[string]*http.Client {
	insecure := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} // not under test
	std := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: insecure.Clone(), DisableCompression: true}
	x := &http2.Transport{TLSClientConfig: insecure.Clone(), DisableCompression: true}
	t.Cleanup(std.CloseIdleConnections)
	t.Cleanup(x.CloseIdleConnections)
	return map[string]*http.Client{"net/http": {Transport: std}, "x/net": {Transport: x}}
}

// play is the handler of the comparison.
func play(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Seen", fmt.Sprint(r.Method, " ", r.URL, " ", r.RequestURI, " ", r.Proto, " ", r.ContentLength, " ", r.TransferEncoding, " ", r.TLS != nil,
		" ", r.Header["Cookie"], r.Header["X-Many"], r.Header["Expect"], r.Header["Te"], r.Header["Trailer"]))
	switch r.URL.Path {
	case "/echo":
		body, err := io.ReadAll(r.Body)
		sum := sha256.Sum256(body)
		fmt.Fprint(w, len(body), hex.EncodeToString(sum[:]), err, r.Trailer)
	case "/size":
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		block := bytes.Repeat([]byte("0123456789abcdef"), 1000)
		for n > 0 {
			k, err := w.Write(block[:min(n, len(block))])
			if err != nil {
				return
			}
			n -= k
		}
	case "/status":
		n, _ := strconv.Atoi(r.URL.Query().Get("n"))
		w.WriteHeader(n)
		_, err := io.WriteString(w, "<html>")
		if (err != nil) != (n == 204 || n == 304) {
			panic(err)
		}
	case "/length":
		h.Set("Content-Length", "5")
		_, _ = io.WriteString(w, "12345")
	case "/trailers":
		h.Set("Trailer", "X-One, X-Absent")
		_, _ = io.WriteString(w, "body")
		w.(http.Flusher).Flush()
		h.Set("X-One", "1")
		h.Set(http.TrailerPrefix+"X-Two", "2")
	case "/early":
		h.Set("Link", "</x>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
		w.WriteHeader(http.StatusAccepted)
	case "/fields":
		h["X-Many"] = []string{"a", "b", ""}
		h["x-lower"] = []string{"c"}
		h["Bad Name"] = []string{"d"}
		h["X-Bad-Value"] = []string{"a\nb"}
		h.Set("Connection", "keep-alive")
		h.Set("X-Large", strings.Repeat("x", 40<<10))
	case "/abort":
		_, _ = io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case "/unread":
		w.WriteHeader(http.StatusForbidden)
	case "/closed":
		_ = r.Body.Close()
		_, err := r.Body.Read(make([]byte, 1))
		fmt.Fprint(w, err)
	case "/deadline":
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, errors.Is(err, os.ErrDeadlineExceeded))
	}
}

// Clients cannot tell which server responds.
func TestAgreesWithPlainServer(t *testing.T) {
	upload := func(n int) func() io.Reader {
		return func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(n)) }
	}
	requests := []struct {
		method, path string
		body         func() io.Reader
		change       func(*http.Request)
	}{
		{method: "GET", path: "/"}, {method: "HEAD", path: "/size?n=10"}, {method: "HEAD", path: "/status?n=200"}, {method: "OPTIONS", path: "/x?y=%20z"},
		{method: "GET", path: "/size?n=1"}, {method: "GET", path: "/size?n=4096"}, {method: "GET", path: "/size?n=16375"},
		{method: "GET", path: "/size?n=16384"}, {method: "GET", path: "/size?n=16385"}, {method: "GET", path: "/size?n=65500"}, {method: "GET", path: "/size?n=65501"},
		{method: "GET", path: "/size?n=9000000"},
		{method: "GET", path: "/status?n=200"}, {method: "GET", path: "/status?n=204"}, {method: "GET", path: "/status?n=304"}, {method: "GET", path: "/status?n=404"}, {method: "HEAD", path: "/status?n=500"},
		{method: "GET", path: "/length"}, {method: "GET", path: "/trailers"}, {method: "GET", path: "/early"}, {method: "GET", path: "/fields"}, {method: "GET", path: "/abort"},
		{method: "POST", path: "/echo", body: upload(0)}, {method: "POST", path: "/echo", body: upload(1)}, {method: "PUT", path: "/echo", body: upload(5 << 20)},
		{method: "PUT", path: "/unread", body: upload(5 << 20)}, {method: "POST", path: "/closed", body: upload(100)},
		{method: "POST", path: "/echo", body: upload(100), change: func(r *http.Request) { r.ContentLength = 100 }},
		{method: "POST", path: "/echo", body: upload(100), change: func(r *http.Request) { r.Header.Set("Expect", "100-continue") }},
		{method: "POST", path: "/unread", body: upload(100), change: func(r *http.Request) { r.Header.Set("Expect", "100-continue") }},
		{method: "POST", path: "/echo", body: upload(70000), change: func(r *http.Request) { r.Trailer = http.Header{"X-After": {"yes"}} }},
		{method: "GET", path: "/", change: func(r *http.Request) {
			r.Header["Cookie"] = []string{"a=b; c=d", "e=f"}
			r.Header["X-Many"] = []string{"1", "2"}
		}},
		{method: "GET", path: "/", change: func(r *http.Request) { r.Header.Set("TE", "trailers") }},
		{method: "GET", path: "/", change: func(r *http.Request) { r.Header.Set("TE", "gzip") }},
		{method: "GET", path: "/", change: func(r *http.Request) { r.Header.Set("X-Large", strings.Repeat("y", 100<<10)) }},
	}
	plain, own := plainServer(t, play), ownServer(t, play)
	for name, client := range clients(t) {
		for i, q := range requests {
			ask := func(s *httptest.Server) string {
				var body io.Reader
				if q.body != nil {
					body = q.body()
				}
				r, err := http.NewRequestWithContext(t.Context(), q.method, s.URL+q.path, body)
				if err != nil {
					t.Fatal(err)
				}
				if q.change != nil {
					q.change(r)
				}
				return answer(client, r)
			}
			if want, got := ask(plain), ask(own); got != want {
				t.Errorf("%s, request %d: %s %s\ngot:  %.600s\nwant: %.600s", name, i, q.method, q.path, got, want)
			}
		}
	}
}

// answer is everything that a client sees of a response.
func answer(c *http.Client, r *http.Request) string {
	var informed []string
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			informed = append(informed, fmt.Sprint(code, h["Link"]))
			return nil
		},
	}))
	response, err := c.Do(r)
	if err != nil {
		return "no answer"
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	sum := sha256.Sum256(body)
	if d := response.Header.Get("Date"); d != "" {
		response.Header.Set("Date", "some")
	}
	if response.StatusCode == 400 || response.StatusCode == 431 { // their text differs
		return fmt.Sprint(response.StatusCode)
	}
	return fmt.Sprint(informed, response.Proto, response.StatusCode, response.ContentLength, response.Header, len(body), hex.EncodeToString(sum[:]), err != nil, response.Trailer)
}

// Many clients do everything at once; they get correct responses, and nothing is left behind.
func TestEverythingAtOnce(t *testing.T) {
	s := ownServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/watch":
			for i := 0; r.Context().Err() == nil && i < 1000; i++ {
				if _, err := io.WriteString(w, "event\n"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		case "/stall":
			for block := make([]byte, 128<<10); r.Context().Err() == nil; {
				_, _ = w.Write(block)
			}
		default:
			play(w, r)
		}
	})
	var wg sync.WaitGroup
	for _, c := range clients(t) {
		for n := range 60 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), 7))
				for range 4 {
					one(t, c, s.URL, random)
				}
			})
		}
	}
	wg.Wait()
}

// one sends one of the many requests.
func one(t *testing.T, c *http.Client, url string, random *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	size := random.IntN(100 << 10)
	kind := random.IntN(6)
	path, body := fmt.Sprintf("/size?n=%d", size), io.Reader(nil)
	switch kind {
	case 1:
		path = "/watch"
	case 2:
		path = "/stall"
	case 3, 4:
		path, body = "/echo", io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(size))
	case 5:
		time.AfterFunc(time.Duration(random.IntN(3000))*time.Microsecond, cancel) // at any moment, without harm
	}
	r, err := http.NewRequestWithContext(ctx, map[bool]string{true: "POST", false: "GET"}[body != nil], url+path, body)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := c.Do(r)
	if err != nil {
		if kind != 5 {
			t.Errorf("%s: %v", path, err)
		}
		return
	}
	defer response.Body.Close()
	switch kind {
	case 1, 2: // read a part, and then reset
		if _, err := io.ReadFull(response.Body, make([]byte, random.IntN(5000))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	case 3, 4:
		sum := sha256.New()
		_, _ = io.Copy(sum, io.LimitReader(rand.NewChaCha8([32]byte{1}), int64(size)))
		want := fmt.Sprint(size, hex.EncodeToString(sum.Sum(nil)), nil, http.Header(nil))
		if got, err := io.ReadAll(response.Body); string(got) != want || err != nil {
			t.Errorf("%s: %q, want %q: %v", path, got, want, err)
		}
	default:
		if n, err := io.Copy(io.Discard, response.Body); (n != int64(size) || err != nil) && kind != 5 {
			t.Errorf("%s: %d bytes: %v", path, n, err)
		}
	}
}
