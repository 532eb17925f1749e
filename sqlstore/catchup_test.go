package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
)

// fakeHistory has a change at every revision.
type fakeHistory struct {
	reads, under, most atomic.Int64
	// gate, if set, blocks each read.
	gate    chan struct{}
	started chan historyQuery
	floor   atomic.Int64
}

func (h *fakeHistory) read(ctx context.Context, q historyQuery) (historyAnswer, error) {
	h.reads.Add(1)
	now := h.under.Add(1)
	defer h.under.Add(-1)
	for most := h.most.Load(); now > most && !h.most.CompareAndSwap(most, now); most = h.most.Load() {
	}
	if h.gate != nil {
		h.started <- q
		select {
		case <-h.gate:
		case <-ctx.Done():
			return historyAnswer{}, ctx.Err()
		}
	}
	if floor := h.floor.Load(); q.after < floor {
		return historyAnswer{}, &resources.ExpiredError{Requested: q.after, Oldest: floor}
	}
	a := historyAnswer{upTo: min(q.upTo, q.after+int64(q.limit))}
	for r := q.after + 1; r <= a.upTo; r++ {
		key := resources.Key{Resource: q.resource, Namespace: "ns", Name: fmt.Sprint(r)}
		a.events = append(a.events, &resources.Event{Op: resources.Create, Revision: r, Object: &resources.Object{Key: key, Revision: r, Data: make([]byte, 100)}})
	}
	return a, nil
}

func newFakeCatchUps(t *testing.T, h *fakeHistory) *catchUps {
	u := newCatchUps(clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), func() {}, h.read)
	t.Cleanup(u.stop)
	return u
}

func podsAfter(after int64) historyQuery {
	return historyQuery{resource: "pods", after: after, upTo: 100_000, limit: 100}
}

// wantFrom checks that an answer has the changes after a revision, without a gap.
func wantFrom(t *testing.T, after int64, a historyAnswer, err error) {
	t.Helper()
	if err != nil || len(a.events) == 0 {
		t.Errorf("after %d: %d events, %v", after, len(a.events), err)
		return
	}
	for _, e := range a.events {
		if after++; e.Revision != after {
			t.Errorf("got %d, want %d", e.Revision, after)
			return
		}
	}
	if a.upTo != after {
		t.Errorf("the answer ends at %d and says %d", after, a.upTo)
	}
}

// Watches that need the same page, or a nearby one, share a read, and later ones need none.
func TestCatchUpIsShared(t *testing.T) {
	h := &fakeHistory{gate: make(chan struct{}), started: make(chan historyQuery, 10)}
	u := newFakeCatchUps(t, h)
	ask := func(after int64) {
		a, err := u.history(context.Background(), podsAfter(after))
		wantFrom(t, after, a, err)
	}
	var readers sync.WaitGroup
	readers.Go(func() { ask(1000) })
	<-h.started
	for i := range 300 {
		readers.Go(func() { ask(1000 + int64(i)%100) })
	}
	u.awaitWaiters(t, 301)
	close(h.gate)
	readers.Wait()
	for after := int64(1000); after < 1000+historyPage; after++ {
		ask(after)
	}
	if n := h.reads.Load(); n != 1 {
		t.Errorf("%d reads, want one", n)
	}
	ask(1000 + historyPage)
	narrow := podsAfter(1000)
	narrow.namespace = "ns" // differs from all namespaces
	if _, err := u.history(context.Background(), narrow); err != nil {
		t.Error(err)
	}
	if n := h.reads.Load(); n != 3 {
		t.Errorf("%d reads, want three", n)
	}
}

// awaitWaiters returns when so many callers wait for a read.
func (u *catchUps) awaitWaiters(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n := 0
		u.mu.Lock()
		for _, under := range u.flights {
			for _, f := range under {
				n += f.waiters
			}
		}
		u.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait, want %d", n, want)
		}
	}
}

// Many readers at different positions of history take no more connections and memory than the bounds.
func TestCatchUpIsBounded(t *testing.T) {
	h := &fakeHistory{}
	u := newFakeCatchUps(t, h)
	u.max = 1 << 20
	var readers sync.WaitGroup
	for i := range int64(200) {
		readers.Go(func() {
			after := i * 400
			a, err := u.history(context.Background(), podsAfter(after))
			wantFrom(t, after, a, err)
		})
	}
	readers.Wait()
	if most := h.most.Load(); most > catchUpReads {
		t.Errorf("%d reads at a time", most)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var kept int64
	for e := u.order.Front(); e != nil; e = e.Next() {
		kept += e.Value.(*segment).size
	}
	if u.used > u.max || kept != u.used || u.order.Len() == 0 {
		t.Errorf("%d bytes are kept in %d pages, counted as %d; the bound is %d", kept, u.order.Len(), u.used, u.max)
	}
}

// A read goes on while any watch waits for it, even if the watch that began it has left.
func TestCatchUpOutlivesWhoBegan(t *testing.T) {
	h := &fakeHistory{gate: make(chan struct{}), started: make(chan historyQuery, 10)}
	u := newFakeCatchUps(t, h)
	first, leave := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	readers.Go(func() {
		if _, err := u.history(first, podsAfter(7)); !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
	})
	<-h.started
	readers.Go(func() {
		a, err := u.history(context.Background(), podsAfter(7))
		wantFrom(t, 7, a, err)
	})
	u.awaitWaiters(t, 2)
	leave()
	u.awaitWaiters(t, 1)
	h.gate <- struct{}{}
	readers.Wait()

	alone, leave := context.WithCancel(context.Background())
	readers.Go(func() {
		if _, err := u.history(alone, podsAfter(70_000)); !errors.Is(err, context.Canceled) {
			t.Errorf("who left alone got %v", err)
		}
	})
	<-h.started
	leave()
	readers.Wait()
	u.work.Wait() // the read has ended, though its gate is closed
}

// The error of a page that begins earlier is not returned to a watch that needs a later one.
func TestCatchUpErrorsAreOnesOwn(t *testing.T) {
	h := &fakeHistory{gate: make(chan struct{}), started: make(chan historyQuery, 10)}
	u := newFakeCatchUps(t, h)
	var readers sync.WaitGroup
	readers.Go(func() {
		if _, err := u.history(context.Background(), podsAfter(1000)); !errors.As(err, new(*resources.ExpiredError)) {
			t.Errorf("got %v, want ExpiredError", err)
		}
	})
	<-h.started
	readers.Go(func() {
		a, err := u.history(context.Background(), podsAfter(1050))
		wantFrom(t, 1050, a, err)
	})
	u.awaitWaiters(t, 2)
	h.floor.Store(1020)
	close(h.gate)
	readers.Wait()
}

// A page that was read before clear is not kept.
func TestCatchUpClear(t *testing.T) {
	h := &fakeHistory{gate: make(chan struct{}), started: make(chan historyQuery, 10)}
	u := newFakeCatchUps(t, h)
	var readers sync.WaitGroup
	readers.Go(func() {
		a, err := u.history(context.Background(), podsAfter(1))
		wantFrom(t, 1, a, err)
	})
	<-h.started
	u.clear()
	close(h.gate)
	readers.Wait()
	a, err := u.history(context.Background(), podsAfter(1))
	wantFrom(t, 1, a, err)
	if n := h.reads.Load(); n != 2 {
		t.Errorf("%d reads, want two", n)
	}
	if again := u.expire(u.clock.Now().Add(segmentsAge)); !again.IsZero() || u.used != 0 || len(u.scopes) != 0 {
		t.Errorf("%d bytes are kept for ever", u.used)
	}
	u.stop()
	if _, err := u.history(context.Background(), podsAfter(1)); !errors.Is(err, resources.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// Many watches that fall behind the log in memory read the database about as often as one of them would.
func TestManyWatchesCatchUpTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		s := h.store
		start := s.revisions.current.Load()
		var reads atomic.Int64
		s.catchUps.read = func(ctx context.Context, q historyQuery) (historyAnswer, error) {
			reads.Add(1)
			return s.db.history(ctx, q)
		}
		const events, watches = 2000, 100
		for range events / 500 {
			writes := make([]resources.Write, 500)
			for i := range writes {
				writes[i] = createMap(t, fmt.Sprint(s.revisions.current.Load(), "-", i))
			}
			mustCommit(t, s, writes...)
		}
		var readers sync.WaitGroup
		var aside atomic.Int64
		for i := range watches {
			w, err := s.Watch(context.Background(), resources.WatchOptions{Resource: "configmaps", After: start, Aside: func() { aside.Add(1) }})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			readers.Go(func() {
				for last := start; last < start+events; {
					got, _, err := w.Next(context.Background(), 50+i)
					if err != nil || len(got) == 0 {
						t.Errorf("%d events after %d, %v", len(got), last, err)
						return
					}
					for _, e := range got {
						if last++; e.Revision != last {
							t.Errorf("got %d, want %d", e.Revision, last)
							return
						}
					}
				}
			})
		}
		readers.Wait()
		if aside.Load() < watches {
			t.Errorf("others would wait for %d watches that read history", watches-aside.Load())
		}
		if n := reads.Load(); n > events/50 {
			t.Errorf("the database was read %d times for %d watches", n, watches)
		}
	})
}

// The log in memory holds tens of thousands of changes of usual size: only the bytes that it alone keeps count.
func TestLogHoldsTensOfThousands(t *testing.T) {
	data := make([]byte, 3500)
	for _, c := range []struct {
		op   resources.Op
		want int
	}{{resources.Update, 20_000}, {resources.Create, 200_000}, {resources.Delete, 10_000}} {
		b := logBudget{limit: DefaultLogSize}
		kept := &collection{resource: "pods"}
		kept.tree.Store(&tree{})
		for r := range int64(2 * c.want) {
			e := &resources.Event{Op: c.op, Revision: r + 1, Object: &resources.Object{Revision: r + 1, Data: data}}
			if c.op != resources.Create {
				e.Prev = &resources.Object{Revision: r, Data: data}
			}
			b.add(kept, e)
			kept.advance([]*resources.Event{e})
			b.trim()
		}
		if len(kept.log) < c.want {
			t.Errorf("the log has %d changes of kind %d, want %d", len(kept.log), c.op, c.want)
		}
	}
}

// Changes that were pruned from history are not kept in memory either.
func TestLogGoesWithHistory(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"), createMap(t, "b"))
	if n := h.store.logged("configmaps"); n != 2 {
		t.Errorf("the log has %d changes, want two", n)
	}
	h.harness().Prune(t)
	if n := h.store.logged("configmaps"); n != 0 || h.store.budget.used != 0 {
		t.Errorf("the log has %d changes, %d bytes", n, h.store.budget.used)
	}
}

// logged returns how many changes of a type the log in memory has.
func (s *Store) logged(resource string) int {
	c := s.collection(resource)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.log)
}
