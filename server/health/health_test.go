package health

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// The expected answers are kube-apiserver's to the same requests.
func TestAnswers(t *testing.T) {
	ok := func(name string) Check { return Check{Name: name, Run: func(*http.Request) error { return nil }} }
	bad := func(name string) Check {
		return Check{Name: name, Run: func(*http.Request) error { return errors.New("disk on fire") }}
	}
	const text = "text/plain; charset=utf-8"
	type answer struct {
		Code        int
		ContentType string
		Nosniff     string
		Body        string
	}
	well := []Check{Ping, ok("store")}
	ill := []Check{Ping, bad("store"), bad("shutdown")}
	for _, tc := range []struct {
		name, target string
		checks       []Check
		want         answer
	}{
		{"well", "/readyz", well, answer{200, text, "nosniff", "ok"}},
		{"verbose", "/readyz?verbose", well, answer{200, text, "nosniff", "[+]ping ok\n[+]store ok\nreadyz check passed\n"}},
		{"verbose=", "/readyz?verbose=false", well, answer{200, text, "nosniff", "[+]ping ok\n[+]store ok\nreadyz check passed\n"}},
		{"excluded", "/readyz?verbose&exclude=ping", well,
			answer{200, text, "nosniff", "[+]ping excluded: ok\n[+]store ok\nreadyz check passed\n"}},
		{"unknown excluded", "/readyz?verbose&exclude=b&exclude=a&exclude=a", well, answer{200, text, "nosniff",
			"[+]ping ok\n[+]store ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nreadyz check passed\n"}},
		{"unknown excluded, terse", "/readyz?exclude=a", well, answer{200, text, "nosniff", "ok"}},
		{"ill", "/readyz", ill, answer{500, text, "nosniff",
			"[+]ping ok\n[-]store failed: reason withheld\n[-]shutdown failed: reason withheld\nreadyz check failed\n"}},
		{"ill but excluded", "/readyz?exclude=store&exclude=shutdown", ill, answer{200, text, "nosniff", "ok"}},
		{"one check", "/readyz/store", well, answer{200, text, "", "ok"}},
		{"one check, verbose", "/readyz/store?verbose", well, answer{200, text, "", "ok"}},
		{"one ill check", "/readyz/store", ill, answer{500, text, "nosniff", "internal server error: disk on fire\n"}},
		{"unknown check", "/readyz/nosuch", well, answer{404, text, "nosniff", "404 page not found\n"}},
		{"below a check", "/readyz/ping/", well, answer{404, text, "nosniff", "404 page not found\n"}},
		{"trailing slash", "/readyz/", well, answer{404, text, "nosniff", "404 page not found\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(New("readyz", slog.New(slog.DiscardHandler), func() []Check { return slices.Clone(tc.checks) }))
			defer server.Close()
			response, err := http.Get(server.URL + tc.target)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var body bytes.Buffer
			if _, err := body.ReadFrom(response.Body); err != nil {
				t.Fatal(err)
			}
			got := answer{response.StatusCode, response.Header.Get("Content-Type"),
				response.Header.Get("X-Content-Type-Options"), body.String()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var discard = slog.New(slog.DiscardHandler)

// The log has each failure once, however often clients ask, and again after the check has passed. A client that goes
// away adds nothing.
func TestReasonIsLogged(t *testing.T) {
	var log bytes.Buffer
	var result error
	h := New("livez", slog.New(slog.NewTextHandler(&log, nil)),
		func() []Check { return []Check{{Name: "store", Run: func(*http.Request) error { return result }}} })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	fire, flood := errors.New("disk on fire"), errors.New("disk under water")
	for _, step := range []struct {
		ctx    context.Context
		result error
		logged string
	}{
		{t.Context(), fire, "disk on fire"}, {t.Context(), fire, ""}, {gone, context.Canceled, ""}, {t.Context(), fire, ""}, {t.Context(), flood, "disk under water"},
		{t.Context(), nil, ""}, {gone, context.Canceled, ""}, {t.Context(), flood, "disk under water"}, {t.Context(), flood, ""},
	} {
		log.Reset()
		result = step.result
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(step.ctx, "GET", "/livez", nil))
		}
		lines := strings.Count(log.String(), "\n")
		if step.logged == "" && lines > 0 || step.logged != "" && (lines != 1 || !strings.Contains(log.String(), step.logged)) {
			t.Errorf("%v: the log says %q, want %q", step.result, log.String(), step.logged)
		}
	}
}

// A check that has not passed when the time of the request is over writes nothing: the caller answers.
func TestTimeOfRequestIsOver(t *testing.T) {
	h := New("livez", slog.New(slog.DiscardHandler),
		func() []Check {
			return []Check{{Name: "store", Run: func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }}}
		})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for _, path := range []string{"/livez", "/livez/store"} {
		w := httptest.NewRecorder()
		if err := h.Serve(w, httptest.NewRequestWithContext(ctx, "GET", path, nil)); !errors.Is(err, context.DeadlineExceeded) || w.Body.Len() > 0 {
			t.Errorf("%s: %v, answered with %q", path, err, w.Body)
		}
	}
}

// An optional check is shown when it passes, and otherwise neither fails nor delays the whole; its own path has its error.
func TestOptional(t *testing.T) {
	answer := func(path string, run func(*http.Request) error) (int, string) {
		h := New("livez", slog.New(slog.DiscardHandler), func() []Check { return []Check{Ping, {Name: "etcd", Optional: true, Run: run}} })
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
	failed := func(*http.Request) error { return errors.New("away") }
	for _, c := range []struct {
		path string
		run  func(*http.Request) error
		code int
		want string
	}{
		{"/livez?verbose", Ping.Run, 200, "[+]ping ok\n[+]etcd ok\nlivez check passed\n"},
		{"/livez?verbose", failed, 200, "[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n"},
		{"/livez?verbose", func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() }, 200,
			"[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n"},
		{"/livez?verbose", (&limited{probe: func(context.Context) error { <-t.Context().Done(); return nil }, clock: clock.RealClock{}, timeout: time.Hour, logger: discard}).check, 200, "[+]ping ok\n[+]etcd excluded: ok\nlivez check passed\n"},
		{"/livez/etcd", failed, 500, "internal server error: away\n"},
	} {
		if code, got := answer(c.path, c.run); code != c.code || got != c.want {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, got, c.code, c.want)
		}
	}
}
