package health

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// Any number of requests cause one probe per second, and none of them shows a result that is older than that, counted from
// the end of the probe.
func TestLimited(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	var probes atomic.Int32
	var result error
	release := make(chan struct{})
	run := (&limited{probe: func(context.Context) error {
		probes.Add(1)
		<-release
		c.SetTime(c.Now().Add(time.Minute)) // it took as long
		return result
	}, clock: c, timeout: time.Hour, logger: discard}).check
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil)
	ask := func(want error) {
		t.Helper()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := run(request); !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			})
		}
		release <- struct{}{}
		all.Wait()
		if err := run(request); !errors.Is(err, want) {
			t.Errorf("afterwards: %v, want %v", err, want)
		}
	}
	away := errors.New("away")
	for i, err := range []error{nil, away, nil} {
		result = err
		ask(err)
		if got := probes.Load(); int(got) != i+1 {
			t.Errorf("%d probes, want %d", got, i+1)
		}
		c.SetTime(c.Now().Add(time.Second - 1))
		if got := run(request); !errors.Is(got, err) || int(probes.Load()) != i+1 {
			t.Errorf("a moment later: %v, %d probes", got, probes.Load())
		}
		c.SetTime(c.Now().Add(1))
	}
}

// A probe belongs to no request: one whose client goes fails neither the others nor the probe.
func TestLimitedClientGone(t *testing.T) {
	release := make(chan struct{})
	run := (&limited{probe: func(ctx context.Context) error {
		<-release
		return ctx.Err()
	}, clock: clocktesting.NewFakePassiveClock(time.Now()), timeout: time.Hour, logger: discard}).check
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("the client that is gone: %v", err)
	}
	close(release)
	if err := run(httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil)); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// A probe that does not heed its context fails the check in time, and no second one is begun beside it.
func TestLimitedHangs(t *testing.T) {
	var probes atomic.Int32
	c := clocktesting.NewFakePassiveClock(time.Now())
	l := &limited{probe: func(context.Context) error {
		probes.Add(1)
		<-t.Context().Done()
		return nil
	}, clock: c, timeout: time.Millisecond, logger: discard}
	for range 3 {
		h := New("readyz", discard, func() []Check { return []Check{{Name: "etcd", Run: l.check}} })
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil)); w.Code != http.StatusInternalServerError {
			t.Errorf("code %d", w.Code)
		}
		c.SetTime(c.Now().Add(time.Minute))
	}
	if n := probes.Load(); n != 1 {
		t.Errorf("%d probes", n)
	}
}

// The log has each failure once, also that of a probe for which no client waits, and that there is no answer yet.
func TestLimitedIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		result := make(chan error)
		c := Limited("etcd", func(context.Context) error { return <-result }, clock.RealClock{}, slog.New(slog.NewTextHandler(&log, nil)))
		h := New("readyz", slog.New(slog.NewTextHandler(&log, nil)), func() []Check { return []Check{c} })
		logged := func(want string) {
			t.Helper()
			synctest.Wait()
			lines := strings.Count(log.String(), "\n")
			if want == "" && lines > 0 || want != "" && (lines != 1 || !strings.Contains(log.String(), want)) {
				t.Errorf("the log says %q, want %q", log.String(), want)
			}
			log.Reset()
		}
		ask := func(patience time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_ = h.Serve(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil))
		}
		fire, flood := errors.New("disk on fire"), errors.New("disk under water")
		for _, step := range []struct {
			result       error
			late, logged string
		}{
			{fire, "no answer within 2s", "disk on fire"}, {fire, "", ""}, {context.DeadlineExceeded, "", "no answer within 2s"},
			{context.DeadlineExceeded, "", ""}, {flood, "", "disk under water"}, {nil, "", ""}, {flood, "no answer within 2s", "disk under water"},
		} {
			ask(time.Second)
			logged("")
			ask(time.Minute)
			logged(step.late)
			result <- step.result
			logged(step.logged)
			time.Sleep(probePause)
		}
	})
}

// A panic of the probe fails the check, and not the server.
func TestLimitedPanics(t *testing.T) {
	var log bytes.Buffer
	c := Limited("etcd", func(context.Context) error { panic("no such page") }, clock.RealClock{}, slog.New(slog.NewTextHandler(&log, nil)))
	err := c.Run(httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
	if err == nil || err.Error() != "panic: no such page" {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(log.String(), "limited_test.go") {
		t.Errorf("the log has no stack: %s", &log)
	}
}
