package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server"
)

// The debug socket serves its paths, and no others, to the owner of the process without credentials.
func TestDebugSocket(t *testing.T) {
	s := newServer(t, func(c *server.Config) {
		c.WithoutProfiling = true // has no effect on the socket
		c.SetVerbosity = func(v string) (string, error) { return "set to " + v, nil }
	})
	path := filepath.Join(t.TempDir(), "debug.sock")
	left, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	left.Close()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.ServeDebugSocket(ctx, path) }()
	client := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		for {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			if err == nil || ctx.Err() != nil {
				return conn, err
			}
		}
	}}
	defer client.CloseIdleConnections()
	for asked, want := range map[string]string{
		"GET /debug/pprof/goroutine?debug=1":     "200 goroutine profile: ",
		"PUT /debug/flags/v":                     "200 set to 4",
		"GET /debug/pprof/":                      "200 <html>",
		"GET /debug/pprof/cmdline":               "404 ", // it may have the password of a database
		"GET /api/v1/namespaces":                 "404 ",
		"GET /debug/api_priority_and_fairness/x": "404 ",
	} {
		method, url, _ := strings.Cut(asked, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, "http://socket"+url, strings.NewReader("4"))
		if err != nil {
			t.Fatal(err)
		}
		w, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(w.Body)
		w.Body.Close()
		if got := w.Status[:4] + string(body); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.100s, %v", asked, got, err)
		}
	}
	if is, err := os.Stat(path); err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", is.Mode(), err)
	}
	if beside, err := os.ReadDir(filepath.Dir(path)); err != nil || len(beside) != 1 {
		t.Errorf("leaves %v, %v", beside, err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path+"-file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.ServeDebugSocket(t.Context(), path+"-file"); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("in the place of a file: %v", err)
	}
}

// Every path that clients can open is accepted, even if the path of the temporary directory beside it is longer. Longer paths are refused with a reason.
func TestDebugSocketPaths(t *testing.T) {
	s := newServer(t, func(*server.Config) {})
	dir, err := os.MkdirTemp("", "s") // the test's own may be longer than a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for length, want := range map[int]string{107: "", 108: "the path has 108 bytes, more than the 107 that it may have: " + dir} {
		deep := filepath.Join(dir, strings.Repeat("x", length-len(dir)-3))
		if err := os.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.ServeDebugSocket(ctx, deep+"/d") }()
		var failed error
		for want == "" && failed == nil {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", deep+"/d")
			if err == nil {
				conn.Close()
				break
			}
			select {
			case failed = <-served:
				served <- failed
			default:
			}
		}
		if want == "" {
			stop()
		}
		if err := <-served; want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes: %v", length, err)
		}
		stop()
	}
}
