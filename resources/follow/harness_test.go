package follow_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// unsteady is a store that fails on demand, and counts.
type unsteady struct {
	resources.Store
	fail   func(call string) error // for "open", "next" and "snapshot" with a resource
	opened atomic.Int32            // watches
	open   atomic.Int32            // those not closed
}

type unsteadyWatch struct {
	resources.Watch
	store *unsteady
}

// Snapshot fails like the other calls.
func (u *unsteady) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if err := u.fail("snapshot " + resource); err != nil {
		return nil, err
	}
	return u.Store.Snapshot(ctx, resource, at)
}

func (u *unsteady) Watch(ctx context.Context, o resources.WatchOptions) (resources.Watch, error) {
	if err := u.fail("open"); err != nil {
		return nil, err
	}
	w, err := u.Store.Watch(ctx, o)
	u.opened.Add(1)
	u.open.Add(1)
	return unsteadyWatch{w, u}, err
}

func (w unsteadyWatch) Next(ctx context.Context, max int) ([]*resources.Event, int64, error) {
	if err := w.store.fail("next"); err != nil {
		return nil, 0, err
	}
	return w.Watch.Next(ctx, max)
}

func (w unsteadyWatch) Close() {
	w.store.open.Add(-1)
	w.Watch.Close()
}

// fixture is a store, with everything needed to follow it.
type fixture struct {
	*testing.T
	ctx   context.Context
	store *unsteady
	// failures are the results of the next calls of each kind.
	mu       sync.Mutex
	failures map[string][]error
}

// patience is how long a test waits for an expected event. Only a failing test reaches it.
const patience = 2 * time.Minute

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	f := &fixture{T: t, ctx: ctx, failures: map[string][]error{}}
	f.store = &unsteady{Store: sqlitetest.Open(t), fail: func(call string) (err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if list := f.failures[call]; len(list) > 0 {
			err, f.failures[call] = list[0], list[1:]
		}
		return err
	}}
	return f
}

func (f *fixture) fail(call string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures[call] = append(f.failures[call], errs...)
}

// source follows things and others, with pauses after failures that are too short to notice.
func (f *fixture) source() follow.Source {
	return follow.Source{Store: f.store, Logger: slog.New(slog.DiscardHandler), Name: "a test", Shortest: time.Millisecond, Longest: time.Millisecond,
		Objects: []resources.Key{{Resource: "things"}, {Resource: "others", Name: "one"}}}
}

var emptyDraft = func() resources.Draft {
	data := []byte(`{"metadata":{"resourceVersion":"0"}}`)
	at := bytes.Index(data, []byte(`"0"`)) + 1
	return resources.Draft{Data: data, RevisionStart: at, RevisionEnd: at + 1}
}()

func (f *fixture) write(op resources.Op, resource, name string) {
	f.Helper()
	w := resources.Write{Op: op, Key: resources.Key{Resource: resource, Name: name}, Draft: emptyDraft}
	if op != resources.Create {
		o, err := f.store.Get(f.ctx, w.Key, resources.At{})
		if err != nil {
			f.Error(err)
			return
		}
		w.From = o.Revision
	}
	if _, err := f.store.Commit(f.ctx, w); err != nil {
		f.Error(err)
	}
}

// diary is a Handler that records its calls, a line each.
type diary struct {
	lines []string
	turn  func(follow.Turn) (time.Duration, error)
}

func (d *diary) Begin() { d.lines = append(d.lines, "begin") }

func (d *diary) Observe(events []*resources.Event) {
	for _, e := range events {
		d.lines = append(d.lines, fmt.Sprintf("%d %s/%s", e.Op, e.Object.Resource, e.Object.Path()))
	}
}

func (d *diary) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	if !t.Quiet {
		return 0, nil
	}
	return d.turn(t)
}

// follow runs until the steps are done: each is called when all events were delivered, and says whether the turn has to
// be whole.
func (f *fixture) follow(s follow.Source, steps ...func(follow.Turn) (time.Duration, error)) []string {
	f.Helper()
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	d := &diary{}
	d.turn = func(t follow.Turn) (time.Duration, error) {
		step := steps[0]
		if steps = steps[1:]; len(steps) == 0 {
			stop()
		}
		return step(t)
	}
	follow.Run(ctx, s, d)
	if f.ctx.Err() != nil {
		f.Errorf("%d steps never came", len(steps))
	}
	if n := f.store.open.Load(); n != 0 {
		f.Errorf("%d watches are left open", n)
	}
	return d.lines
}

func (f *fixture) check(got []string, want ...string) {
	f.Helper()
	if !slices.Equal(got, want) {
		f.Errorf("told %q, want %q", got, want)
	}
}

// do is a step that succeeds.
func (f *fixture) do(whole bool, what func()) func(follow.Turn) (time.Duration, error) {
	return func(t follow.Turn) (time.Duration, error) {
		if t.Whole != whole {
			f.Errorf("a turn is whole: %v, want %v", t.Whole, whole)
		}
		what()
		return 0, nil
	}
}

func nothing() {}
