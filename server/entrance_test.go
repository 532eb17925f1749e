package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/servertest"
)

// newEntrance returns an entrance without a server, in which requests do not wait unless change says so.
func newEntrance(t *testing.T, change func(*server.EntranceConfig)) *server.Entrance {
	t.Helper()
	c := server.EntranceConfig{Logger: servertest.Quiet, Hooks: controlplane.Hooks(true), AllowsAnonymous: func(string) bool { return true },
		Database: func() error { return nil }, Objects: func() error { return errors.New("3 of about 7 objects read") }}
	if change != nil {
		change(&c)
	}
	e, err := server.NewEntrance(c)
	if err != nil {
		t.Fatal(err)
	}
	e.Patience(0)
	return e
}

// checkNames returns the names of all checks, and of those that failed.
func checkNames(body string) (all, failed []string) {
	for _, m := range regexp.MustCompile(`(?m)^\[([+-])\](\S+)`).FindAllStringSubmatch(body, -1) {
		if all = append(all, m[2]); m[1] == "-" {
			failed = append(failed, m[2])
		}
	}
	return all, failed
}

// Before there is a server, the health paths have their later checks, of which the unfinished ones fail. The reason is in the verbose output if it
// is no secret.
func TestHealthBeforeTheStart(t *testing.T) {
	ready := newServer(t, nil)
	for _, tc := range []struct {
		path   string
		away   bool
		says   []string
		passed []string
	}{
		{"/readyz?verbose", false, []string{"[-]informer-sync failed: 3 of about 7 objects read\n", "[-]poststarthook/rbac/bootstrap-roles failed: reason withheld\n", "\nreadyz check failed"},
			[]string{"ping", "log", "etcd", "etcd-readiness", "shutdown"}},
		{"/readyz?verbose", true, []string{"[-]etcd failed: away for now\n"}, []string{"ping", "log", "shutdown"}},
		{"/readyz", true, []string{"[-]etcd failed: reason withheld\n", "[-]informer-sync failed: reason withheld\n"}, []string{"ping", "log", "shutdown"}},
		{"/livez?verbose", true, []string{"[+]etcd excluded: ok\n", "\nlivez check failed"}, []string{"ping", "log", "loopback-serving-certificate", "etcd"}},
		{"/healthz", false, []string{"\nhealthz check failed"}, []string{"ping", "log", "loopback-serving-certificate", "etcd"}},
	} {
		e := newEntrance(t, func(c *server.EntranceConfig) {
			if tc.away {
				c.Database = func() error { return errors.New("away for now") }
			}
		})
		w := get(e, tc.path, "")
		all, failed := checkNames(w.Body.String())
		for _, want := range tc.says {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: no %q in %s", tc.path, want, w.Body)
			}
		}
		var passed []string
		for _, name := range all {
			if !slices.Contains(failed, name) {
				passed = append(passed, name)
			}
		}
		if w.Code != 500 || !slices.Equal(passed, tc.passed) {
			t.Errorf("%s: %d; passed: %q, want %q", tc.path, w.Code, passed, tc.passed)
		}
		path, _, _ := strings.Cut(tc.path, "?")
		later, _ := checkNames(get(ready.Handler(), path+"?verbose", "").Body.String())
		slices.Sort(all)
		slices.Sort(later)
		for _, name := range later {
			if !slices.Contains(all, name) {
				t.Errorf("%s: %s comes later only", tc.path, name)
			}
		}
	}
}

// The checks of keys run before there is a server, too. /livez does not have them.
func TestKeyChecksBeforeTheStart(t *testing.T) {
	away := true
	e := newEntrance(t, func(c *server.EntranceConfig) {
		c.KeyChecks = []health.Check{{Name: "kms-provider-0", Run: func(*http.Request) error {
			if away {
				return errors.New("the plugin does not answer")
			}
			return nil
		}}}
	})
	for _, c := range []struct {
		path string
		away bool
		want string
	}{
		{"/readyz", true, "[+]etcd-readiness ok\n[-]kms-provider-0 failed: reason withheld\n[-]informer-sync failed"},
		{"/healthz", true, "[+]etcd ok\n[-]kms-provider-0 failed: reason withheld\n[-]poststarthook/"},
		{"/readyz", false, "[+]etcd-readiness ok\n[+]kms-provider-0 ok\n[-]informer-sync failed"},
		{"/livez", true, "[+]etcd ok\n[-]poststarthook/"},
	} {
		away = c.away
		if body := get(e, c.path+"?verbose", "").Body.String(); !strings.Contains(body, c.want) {
			t.Errorf("%s: no %q in %s", c.path, c.want, body)
		}
	}
}

// Other requests must wait, whatever their credentials. Where anonymous clients may not read the health paths, they get a 401.
func TestRequestsBeforeTheStart(t *testing.T) {
	open := newEntrance(t, nil)
	closed := newEntrance(t, func(c *server.EntranceConfig) { c.AllowsAnonymous = func(path string) bool { return path == "/livez" } })
	for _, tc := range []struct {
		e                   *server.Entrance
		path, authorization string
		code                int
	}{
		{open, "/api/v1/pods", "", 503}, {open, "/api/v1/pods", "Bearer x", 503}, {open, "/version", "", 503}, {open, "/readyz/etcd", "", 503}, {open, "/", "", 503},
		{open, "/readyz", "Bearer x", 500}, {closed, "/livez", "", 500}, {closed, "/readyz", "", 401}, {closed, "/readyz", "Bearer x", 503}, {closed, "/api", "", 503},
	} {
		w := get(tc.e, tc.path, tc.authorization)
		if w.Code != tc.code {
			t.Errorf("%s by %q: %d, want %d", tc.path, tc.authorization, w.Code, tc.code)
		}
		if retry := w.Header().Get("Retry-After"); (retry != "") != (tc.code == 503) {
			t.Errorf("%s: %d, Retry-After %q", tc.path, w.Code, retry)
		}
	}
	w := get(open, "/api/v1/pods", "")
	const want = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"the request has been made before all known HTTP paths have been installed, please try again","reason":"ServiceUnavailable","details":{"retryAfterSeconds":5},"code":503}` + "\n"
	if w.Body.String() != want || w.Header().Get("Retry-After") != "5" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

// The server answers requests that wait when it becomes ready, and later ones on the same connection. If an entrance ends without a server, waiting
// requests are told to retry, and no others are accepted.
func TestWaitingForTheStart(t *testing.T) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		for _, served := range []bool{true, false} {
			t.Run(fmt.Sprint(protocol, ", served: ", served), func(t *testing.T) { checkWaiting(t, protocol, served) })
		}
	}
}

func checkWaiting(t *testing.T, protocol string, served bool) {
	given := httptest.NewUnstartedServer(nil)
	given.StartTLS() // to get its certificate
	certificates := given.TLS.Certificates
	given.Close()
	e := newEntrance(t, func(c *server.EntranceConfig) {
		c.TLS = &tls.Config{Certificates: certificates, NextProtos: []string{protocol}}
	})
	e.Patience(1 << 62)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e.Open(l)
	connections := 0
	transport := &http.Transport{ForceAttemptHTTP2: true, MaxConnsPerHost: 1,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}} //nolint:gosec // on loopback
	defer transport.CloseIdleConnections()
	ask := func(path string) (int, string) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
			if !i.Reused {
				connections++
			}
		}})
		r, err := http.NewRequestWithContext(ctx, "GET", "https://"+l.Addr().String()+path, nil)
		if err != nil {
			t.Error(err)
		}
		r.Header.Set("Authorization", "known")
		response, err := transport.RoundTrip(r)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		line, _ := bufio.NewReader(response.Body).ReadString('\n')
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode, line
	}
	if code, line := ask("/readyz"); code != 500 || line != "[+]ping ok\n" {
		t.Errorf("%d %s", code, line)
	}
	waits := make(chan int)
	go func() {
		code, _ := ask("/api/v1/namespaces/default")
		waits <- code
	}()
	e.AwaitWaiting(1)
	if !served {
		e.Close()
		if code := <-waits; code != 503 {
			t.Errorf("who waited: %d", code)
		}
		if code, line := ask("/readyz"); code != 0 {
			t.Errorf("after the end: %d %s", code, line)
		}
		return
	}
	s := newServer(t, func(c *server.Config) { c.Entrance = e })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, nil) }()
	if code := <-waits; code != 200 {
		t.Errorf("who waited: %d", code)
	}
	if code, line := ask("/readyz"); code != 200 || line != "ok" || connections != 1 {
		t.Errorf("afterwards: %d %s, through %d connections", code, line, connections)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The number of waiting requests is bounded: the next one is told to retry at once.
func TestWaitingMost(t *testing.T) {
	e := newEntrance(t, nil)
	e.Patience(1 << 62)
	most := server.WaitingMost
	answered := make(chan int, most+1)
	for range most {
		go func() { answered <- get(e, "/api", "").Code }()
	}
	e.AwaitWaiting(int64(most))
	if code := get(e, "/api", "").Code; code != 503 {
		t.Errorf("one too many: %d", code)
	}
	e.Close()
	for range most {
		if code := <-answered; code != 503 {
			t.Errorf("one that waited: %d", code)
		}
	}
}
