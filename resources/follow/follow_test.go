package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// unsteady is a store that fails as it is told to, and counts.
type unsteady struct {
	resources.Store
	fail   func(call string) error // of "open" and "next"
	opened atomic.Int32            // watches
	open   atomic.Int32            // of them not closed
}

type unsteadyWatch struct {
	resources.Watch
	store *unsteady
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

// fixture is a store, and what it takes to follow it.
type fixture struct {
	*testing.T
	ctx   context.Context
	store *unsteady
	// failures are what the next calls of each kind return.
	mu       sync.Mutex
	failures map[string][]error
}

// patience is how long a test waits for what must come. It is only reached by a test that fails.
const patience = time.Minute

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

// source follows things and others without a pause after failures that a test would notice.
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

// diary is a Handler that writes down what it is told, a line each.
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

// follow follows until the steps are done: each is what to do when all was told, and whether the turn is to be whole.
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

// While the database does not answer nothing is forgotten, opened or told anew: the same watches are asked again.
func TestUnavailable(t *testing.T) {
	f := newFixture(t)
	f.write(resources.Create, "things", "old")
	down := fmt.Errorf("no answer: %w", resources.ErrUnavailable)
	f.fail("open", down, down)
	s := f.source()
	s.Existing = true
	got := f.follow(s, f.do(true, func() {
		f.fail("next", down, down, down)
		f.write(resources.Create, "things", "new")
		f.write(resources.Create, "others", "one")
	}), f.do(false, nothing))
	f.check(got, "begin", "1 things/old", "1 things/new", "1 others/one")
	if n := f.store.opened.Load(); n != 2 {
		t.Errorf("%d watches were opened", n)
	}
}

// Where history was lost, everything begins with what is there.
func TestExpired(t *testing.T) {
	for name, failure := range map[string]error{"expired": &resources.ExpiredError{Requested: 1, Oldest: 2}, "unforeseen": errors.New("unforeseen")} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.write(resources.Create, "things", "old")
			s := f.source()
			s.Existing = true
			got := f.follow(s, f.do(true, func() {
				f.fail("next", failure)
				f.write(resources.Create, "things", "new")
				f.write(resources.Delete, "things", "old")
			}), f.do(true, nothing))
			f.check(got, "begin", "1 things/old", "begin", "1 things/new")
		})
	}
}

// Only what is named is followed, in pages.
func TestObjects(t *testing.T) {
	f := newFixture(t)
	for i := range follow.PageSize + 1 {
		f.write(resources.Create, "things", fmt.Sprintf("%04d", i))
	}
	f.write(resources.Create, "others", "one")
	f.write(resources.Create, "others", "two")
	s := f.source()
	s.Existing = true
	got := f.follow(s, f.do(true, func() { f.write(resources.Update, "others", "two"); f.write(resources.Update, "others", "one") }), f.do(false, nothing))
	if want := 1 + follow.PageSize + 1 + 2; len(got) != want {
		t.Fatalf("told %d, want %d", len(got), want)
	}
	f.check(got[len(got)-2:], "1 others/one", "2 others/one")
}

// A turn that fails is made again, for everything; so is one whose time has come, and one that Changed asks for.
func TestWholeTurns(t *testing.T) {
	f := newFixture(t)
	s, changed := f.source(), make(chan struct{})
	s.Changed = func() <-chan struct{} { return changed }
	f.follow(s,
		f.do(true, func() { f.write(resources.Create, "things", "a") }),
		func(turn follow.Turn) (time.Duration, error) {
			if turn.Whole {
				t.Error("the turn of an event is whole")
			}
			return 0, errors.New("not now")
		},
		func(turn follow.Turn) (time.Duration, error) {
			if !turn.Whole {
				t.Error("the turn after a failure is not whole")
			}
			return time.Nanosecond, nil
		},
		f.do(true, func() {
			was := changed
			changed = make(chan struct{})
			close(was)
		}),
		f.do(true, func() { f.write(resources.Update, "things", "a") }),
		f.do(false, nothing))
}

// The types of a registry are followed as they come and go, and a turn says of which catalog it is.
func TestTypes(t *testing.T) {
	f := newFixture(t)
	registry := resources.NewRegistry()
	set := func(names ...string) {
		v := resources.VersionSpec{Version: "v1"}
		for _, name := range names {
			v.Types = append(v.Types, &resources.Type{GroupResource: schema.GroupResource{Resource: name}, Kind: name})
		}
		registry.SetGroup(resources.GroupSpec{Versions: []resources.VersionSpec{v}})
	}
	set("things", "ignored")
	for _, resource := range []string{"things", "ignored", "others"} {
		f.write(resources.Create, resource, "old")
	}
	s := f.source()
	s.Objects, s.Existing, s.Registry, s.Types = nil, true, registry, func(t *resources.Type) bool { return t.Resource != "ignored" }
	step := func(whole bool, what func()) func(follow.Turn) (time.Duration, error) {
		return func(t follow.Turn) (time.Duration, error) {
			if t.Catalog != registry.Catalog() {
				f.Error("the catalog of a turn is not the present one")
			}
			return f.do(whole, what)(t)
		}
	}
	got := f.follow(s,
		step(true, func() { set("things", "others", "ignored") }),
		step(false, func() { f.write(resources.Delete, "things", "old"); set("others") }),
		step(false, func() { f.write(resources.Create, "things", "unseen"); f.write(resources.Create, "others", "new") }),
		step(false, nothing))
	f.check(got, "begin", "1 things/old", "1 others/old", "3 things/old", "1 others/new")
}

// replica is a Handler that keeps a copy of what it is told, and checks the order.
type replica struct {
	*testing.T
	objects map[resources.Key]int64
	last    map[string]int64 // by resource
	quiet   func(*replica)
}

func (r *replica) Begin() { r.objects, r.last = map[resources.Key]int64{}, map[string]int64{} }

func (r *replica) Observe(events []*resources.Event) {
	if len(events) > follow.PageSize {
		r.Errorf("%d events at once", len(events))
	}
	for _, e := range events {
		known := r.objects[e.Object.Key]
		if e.Revision <= known || e.Op != resources.Create && e.Revision <= r.last[e.Object.Resource] {
			r.Errorf("%s at %d comes after %d of it, %d of its type", e.Object.Key, e.Revision, known, r.last[e.Object.Resource])
		}
		r.last[e.Object.Resource] = max(r.last[e.Object.Resource], e.Revision)
		r.objects[e.Object.Key] = e.Revision
		if e.Op == resources.Delete {
			delete(r.objects, e.Object.Key)
		}
	}
}

func (r *replica) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	if t.Quiet {
		r.quiet(r)
	}
	return 0, nil
}

// Whatever fails while several write: in the end a Handler knows what there is, and was told of it in order.
func TestReplica(t *testing.T) {
	f := newFixture(t)
	const types, writers, writes = 3, 4, 300
	s := f.source()
	s.Existing, s.Objects = true, nil
	for i := range types {
		s.Objects = append(s.Objects, resources.Key{Resource: fmt.Sprint("things", i)})
	}
	expired := &resources.ExpiredError{Requested: 1, Oldest: 2}
	ctx, stop := context.WithCancel(f.ctx)
	defer stop()
	var working sync.WaitGroup
	var done atomic.Bool
	for w := range writers {
		random := rand.New(rand.NewPCG(uint64(w), 8))
		working.Go(func() {
			for i := range writes {
				resource, name := fmt.Sprint("things", random.IntN(types)), fmt.Sprintf("%d-%d", w, random.IntN(10))
				op := resources.Create
				if _, err := f.store.Get(f.ctx, resources.Key{Resource: resource, Name: name}, resources.At{}); err == nil {
					op = []resources.Op{resources.Update, resources.Delete}[random.IntN(2)]
				}
				f.write(op, resource, name)
				if i%20 == 0 {
					f.fail([]string{"open", "next"}[random.IntN(2)], resources.ErrUnavailable)
				}
				if w == 0 && i%50 == 0 {
					f.fail("next", expired)
				}
			}
		})
	}
	go func() {
		working.Wait()
		done.Store(true)
		f.write(resources.Create, "things0", "end")
	}()
	follow.Run(ctx, s, &replica{T: t, quiet: func(r *replica) {
		if _, ended := r.objects[resources.Key{Resource: "things0", Name: "end"}]; ended && done.Load() {
			r.compare(f)
			stop()
		}
	}})
	if f.ctx.Err() != nil {
		t.Error("the end was never told")
	}
}

func (r *replica) compare(f *fixture) {
	n := 0
	for i := range 3 {
		now, err := f.store.Snapshot(f.ctx, fmt.Sprint("things", i), resources.At{})
		if err != nil {
			r.Fatal(err)
		}
		now.Ascend("", "", func(o *resources.Object) bool {
			n++
			if r.objects[o.Key] != o.Revision {
				r.Errorf("%s is at %d, known at %d", o.Key, o.Revision, r.objects[o.Key])
			}
			return true
		})
	}
	if n != len(r.objects) {
		r.Errorf("there are %d objects, known are %d", n, len(r.objects))
	}
}
