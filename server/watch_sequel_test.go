package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server"
)

const namespaceWatch = "/api/v1/namespaces?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion="

// watching is an HTTP/2 server whose watches outlive their handlers, with its records of them.
type watching struct {
	*testing.T
	*server.Server
	kept    *records
	seen    []auditv1.Event
	address string
	stop    context.CancelFunc
	done    <-chan error
}

func newWatching(t *testing.T, change func(*server.Config)) *watching {
	t.Cleanup(fastpath.HTTP2.Turn(true))
	given := httptest.NewUnstartedServer(nil)
	given.StartTLS() // to get its certificate
	certificates := given.TLS.Certificates
	given.Close()
	s, kept := audited(t, everything, func(c *server.Config) {
		c.TLS = &tls.Config{Certificates: certificates, NextProtos: []string{"h2", "http/1.1"}}
		if change != nil {
			change(c)
		}
	})
	w := &watching{T: t, Server: s, kept: kept}
	w.address, w.stop, w.done = serve(t, s)
	return w
}

// open opens a watch, which ends with ctx.
func (w *watching) open(ctx context.Context) *http.Response {
	w.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", "https://"+w.address+namespaceWatch, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Authorization", "master")
	answer, err := newKnownClient(w.T).RoundTrip(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { answer.Body.Close() })
	if answer.StatusCode != 200 || answer.ProtoMajor != 2 {
		w.Fatalf("%s by %s", answer.Status, answer.Proto)
	}
	return answer
}

func (w *watching) until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal(what)
		}
	}
}

// resting waits until n watches are open and no goroutine is in the handler of one.
func (w *watching) resting(n int) {
	w.Helper()
	w.until("a watch that waits has a goroutine", func() bool {
		stacks := make([]byte, 8<<20)
		return w.Watches() == n && !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "handlers.(*watchStream)")
	})
}

// tells returns the numbers of open and of finished watches in the server's metrics.
func (w *watching) tells() (open, over string) {
	w.Helper()
	for line := range strings.Lines(get(w.Handler(), "/metrics", "master").Body.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		if !strings.Contains(name, `resource="namespaces"`) || !strings.Contains(name, `verb="WATCH"`) {
			continue
		}
		switch {
		case strings.HasPrefix(name, "apiserver_longrunning_requests"):
			open = value
		case strings.HasPrefix(name, "apiserver_request_total") && strings.Contains(name, `code="200"`):
			over = value
		}
	}
	return open, over
}

// recorded waits for an audit event.
func (w *watching) recorded(want string) auditv1.Event {
	w.Helper()
	var found auditv1.Event
	w.until("there is no event "+want, func() bool {
		w.seen = append(w.seen, w.kept.take()...)
		for _, e := range w.seen {
			if brief([]auditv1.Event{e})[0] == want {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

func (w *watching) interested() int {
	return w.InterestedWatches(&genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "create", APIVersion: "v1", Resource: "namespaces"})
}

func (w *watching) create(name string) {
	w.Helper()
	if got := ask(w.Handler(), "POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`); got.Code != 201 {
		w.Fatalf("%d: %s", got.Code, got.Body)
	}
}

func mustSee(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"type":"ADDED"`) || !strings.Contains(line, `"name":"`+want+`"`) {
		t.Fatalf("%v: %s", err, line)
	}
}

// A watch at rest over HTTP/2 has no goroutine. It is counted, audited and included in the estimated cost of writes until its client or the
// server's shutdown ends it.
func TestWatchWithoutHandler(t *testing.T) {
	w := newWatching(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	events := bufio.NewReader(w.open(ctx).Body)
	w.recorded("Metadata ResponseStarted watch 200")
	w.resting(1)
	w.create("a")
	mustSee(t, events, "a")
	w.create("b")
	w.create("c")
	mustSee(t, events, "b")
	mustSee(t, events, "c")
	w.resting(1)
	if open, over := w.tells(); open != "1" || over != "" {
		t.Errorf("open %q, over %q", open, over)
	}
	if n := w.interested(); n != 1 {
		t.Errorf("a write is thought to have %d watches to tell", n)
	}
	for _, e := range w.seen {
		if e.Stage == "ResponseComplete" && e.Verb == "watch" {
			t.Error("it is recorded as over")
		}
	}
	cancel()
	w.recorded("Metadata ResponseComplete watch 200")
	w.resting(0)
	if open, over := w.tells(); open != "0" || over != "1" || w.interested() != 0 {
		t.Errorf("afterwards: open %q, over %q, %d to tell", open, over, w.interested())
	}

	last := w.open(t.Context())
	w.resting(1)
	w.stop()
	if rest, err := io.ReadAll(last.Body); err != nil || len(rest) > 0 {
		t.Errorf("the end is %q, %v", rest, err)
	}
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	if open, over := w.tells(); open != "0" || over != "2" {
		t.Errorf("at the end: open %q, over %q", open, over)
	}
}

// panickyStore has cursors that panic on demand.
type panickyStore struct {
	resources.View
	now atomic.Bool
}

type panickyCursor struct {
	resources.Watch
	s *panickyStore
}

func (s *panickyStore) Watch(ctx context.Context, o resources.WatchOptions) (resources.Watch, error) {
	w, err := s.View.Watch(ctx, o)
	return panickyCursor{w, s}, err
}

func (c panickyCursor) Next(ctx context.Context, most int) ([]*resources.Event, int64, error) {
	events, revision, err := c.Watch.Next(ctx, most)
	if len(events) > 0 && c.s.now.CompareAndSwap(true, false) {
		panic("as wanted")
	}
	return events, revision, err
}

// A panic in a watch is logged, counted and audited, and ends its stream visibly as incomplete. Other watches continue.
func TestWatchWithoutHandlerPanics(t *testing.T) {
	store := &panickyStore{}
	var log logBuffer
	w := newWatching(t, func(c *server.Config) {
		store.View, c.Store = c.Store, store
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	first, second := w.open(t.Context()), w.open(t.Context())
	w.resting(2)
	store.now.Store(true)
	w.create("a")
	if e := w.recorded("Metadata Panic watch 500"); e.ResponseStatus.Message != "APIServer panic'd: as wanted" {
		t.Errorf("%+v", e.ResponseStatus)
	}
	w.resting(1)
	failed := 0
	for _, answer := range []*http.Response{first, second} {
		from := bufio.NewReader(answer.Body)
		if line, err := from.ReadString('\n'); err != nil {
			failed++
			if err == io.EOF { //nolint:errorlint // only io.EOF itself is wrong here
				t.Error("it looks like a watch that came to its end")
			}
		} else if !strings.Contains(line, `"name":"a"`) {
			t.Errorf("%s", line)
		} else {
			w.create("b")
			mustSee(t, from, "b")
		}
	}
	if failed != 1 || !strings.Contains(log.String(), "as wanted") || !strings.Contains(log.String(), "panickyCursor") {
		t.Errorf("%d watches have failed; the log has %s", failed, log.String())
	}
	if open, _ := w.tells(); open != "1" {
		t.Errorf("open %q", open)
	}
	if metrics := get(w.Handler(), "/metrics", "master").Body.String(); !strings.Contains(metrics, "apiserver_request_panics_total 1\n") {
		t.Error("it is not counted")
	}
	w.stop()
	if err := <-w.done; err != nil {
		t.Error(err)
	}
}
