package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// testContext ends a test that would wait for ever.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// openPeer opens another server on the database of a harness.
func (h *postgresHarness) openPeer(t *testing.T) *Store {
	t.Helper()
	s := h.open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// "Most recent" reads on any server see every write acknowledged by any server.
func TestMostRecentOverServers(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	servers := []*Store{h.store, h.openPeer(t), h.openPeer(t)}
	for i := range 300 {
		w := createMap(t, strconv.Itoa(i))
		made, err := servers[i%3].Commit(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		reader := servers[(i+1)%3]
		if got, err := reader.Get(ctx, w.Key, resources.At{}); err != nil || got.Revision != made[0].Revision {
			t.Fatalf("%s: %v, %v", w.Key, got, err)
		}
		if snap, err := servers[(i+2)%3].Snapshot(ctx, "configmaps", resources.At{Match: resources.NotOlderThan,
			Revision: made[0].Revision}); err != nil || snap.Count("", "") != i+1 {
			t.Fatalf("a list: %v", err)
		}
	}
}

// collect reads a watch until it has seen an event of this name.
func collect(ctx context.Context, t *testing.T, w resources.Watch, last string) (events []*resources.Event) {
	for {
		more, _, err := w.Next(ctx, 100)
		if err != nil {
			t.Errorf("next: %v", err)
			return events
		}
		for _, e := range more {
			if events = append(events, e); e.Object.Name == last {
				return events
			}
		}
		if len(more) == 0 {
			select {
			case <-w.Ready():
			case <-ctx.Done():
				t.Errorf("the watch got %d events and then none", len(events))
				return events
			}
		}
	}
}

// Watches on every server deliver every event, in order, once; the writes of all servers are one sequence without gaps,
// and no update is lost.
func TestServersWriteTogether(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	servers := []*Store{h.store, h.openPeer(t), h.openPeer(t)}
	start := mustCommit(t, h.store, countTo(t, 0, nil))[0]
	watches := make([]resources.Watch, len(servers))
	for i, s := range servers {
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start.Revision})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches[i] = w
	}
	const writers, rounds = 4, 40
	var wg sync.WaitGroup
	for _, s := range servers {
		for range writers {
			wg.Go(func() {
				for range rounds {
					_, err := resources.GuaranteedUpdate(ctx, s, start.Key, func(o *resources.Object) ([]resources.Write, error) {
						if o == nil {
							return nil, resources.ErrNotFound // this server has not heard of the object: the caller reads at most recent
						}
						return []resources.Write{countTo(t, count(t, o)+1, o)}, nil
					})
					if err != nil {
						t.Errorf("update: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	total := len(servers) * writers * rounds
	mustCommit(t, servers[1], createMap(t, "end"))
	for i, w := range watches {
		events := collect(ctx, t, w, "end")
		if len(events) != total+1 {
			t.Errorf("server %d: %d events, want %d", i, len(events), total+1)
		}
		for j, e := range events {
			if e.Revision != start.Revision+int64(j)+1 {
				t.Fatalf("server %d: event %d has revision %d", i, j, e.Revision)
			}
			if e.Op == resources.Update && (count(t, e.Object) != j+1 || e.Prev.Revision != e.Revision-1) {
				t.Fatalf("server %d: event %d counts to %d, from revision %d", i, j, count(t, e.Object), e.Prev.Revision)
			}
		}
	}
}

// countTo returns a write of a number as the label of an object; o is the object that it is computed from, or nil.
func countTo(t testing.TB, n int, o *resources.Object) resources.Write {
	w := createMap(t, "counter")
	if o != nil {
		w.Op, w.From = resources.Update, o.Revision
	}
	w.Draft.Labels = nil
	w.Draft.Fields = map[string]string{"count": strconv.Itoa(n)}
	return w
}

func count(t testing.TB, o *resources.Object) int {
	n, err := strconv.Atoi(o.Fields["count"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A read at "most recent" does not wait for the lock of the cache, which the committer holds until its own COMMIT was
// answered, if the cache has the needed revision already or gets it by then.
func TestMostRecentDoesNotWaitForACommit(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	first := mustCommit(t, h.store, createMap(t, "first"))[0]
	h.store.peers.stop() // it gets no notifications; the test calls its functions below
	h.store.peers.recent.learn = func() (int64, error) { return h.store.peers.db.counter(ctx) }
	get := func(key resources.Key) error {
		_, err := h.store.Get(ctx, key, resources.At{})
		return err
	}
	h.store.applying.Lock()
	defer h.store.applying.Unlock()
	if err := get(first.Key); err != nil {
		t.Errorf("what the cache has: %v", err)
	}
	second := mustCommit(t, h.openPeer(t), createMap(t, "second"))[0]
	got := make(chan error, 1)
	go func() { got <- get(second.Key) }()
	for waits := false; !waits && ctx.Err() == nil; runtime.Gosched() {
		h.store.revisions.mu.Lock()
		waits = len(h.store.revisions.waiters) > 0
		h.store.revisions.mu.Unlock()
	}
	seen := h.store.position
	page, err := pageAfter(ctx, h.store.peers.db, seen.revision)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.take(page, seen); err != nil { // as the committer does under the lock of the counter
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("what came into the cache meanwhile: %v", err)
	}
}

// BenchmarkMostRecent has clients read at "most recent" on a server, with and without concurrent writes.
func BenchmarkMostRecent(b *testing.B) {
	for _, writers := range []int{0, 8} {
		b.Run("writers="+strconv.Itoa(writers), func(b *testing.B) {
			s := openPostgresBench(b)
			first, err := s.Commit(context.Background(), createMap(b, "first"))
			if err != nil {
				b.Fatal(err)
			}
			var stopped atomic.Bool
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for n := 0; !stopped.Load(); n++ {
						if _, err := s.Commit(context.Background(), createMap(b, strconv.Itoa(w)+"-"+strconv.Itoa(n))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			b.ResetTimer()
			measured(b, 32, func(int64) error {
				_, err := s.Get(context.Background(), first[0].Key, resources.At{})
				return err
			})
			b.StopTimer()
			stopped.Store(true)
			wg.Wait()
		})
	}
}

// openPostgresBench opens a server in a schema of its own.
func openPostgresBench(b *testing.B) *Store {
	b.Helper()
	c, err := cluster()
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(context.Background(), Options{URL: c.URL(), Schema: fmt.Sprintf("Bench %d", schemas.Add(1)),
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// slowDatabase can send only so many rows within the time limit of a page.
type slowDatabase struct {
	asker
	rows int
}

func (d slowDatabase) page(ctx context.Context, after int64, rows, bytes int) (*page, error) {
	p, err := d.asker.page(ctx, after, rows, bytes)
	if err == nil && len(p.rows) > d.rows {
		return nil, context.DeadlineExceeded
	}
	return p, err
}

// A server that is far behind, or whose database is slow, catches up page by page. A transaction becomes visible as a
// whole, also if a page ends within it, or if it exceeds a page.
func TestCatchUpInPages(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	behind := h.openPeer(t)
	behind.peers.stop() // it gets no notifications
	start := behind.position.revision
	w, err := behind.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const together = 300 // so that a page ends within them
	total := 0
	commit := func(n int) {
		t.Helper()
		writes := make([]resources.Write, n)
		for i := range writes {
			writes[i] = countTo(t, total, nil)
			writes[i].Key.Name = strconv.Itoa(total)
			total++
		}
		mustCommit(t, h.store, writes...)
	}
	for total < 2*pageRows {
		commit(together)
	}
	var seen []int64
	db := slowDatabase{behind.peers.db, pageRows}
	for target := start + int64(total); behind.position.revision < target; {
		before := behind.position.revision
		if _, err := behind.peers.step(ctx, db, target); err != nil {
			t.Fatal(err)
		}
		if come := behind.position.revision - before; come <= 0 || come%together != 0 {
			t.Fatalf("a page brought %d changes of %d that are written together", come, together)
		}
		seen = append(seen, behind.position.revision)
	}
	if len(seen) < 2 {
		t.Errorf("all came at once")
	}
	commit(2*pageRows + 1) // more than a page
	if err := behind.peers.catchUp(ctx, db, 0); err == nil {
		t.Error("a transaction was read in part")
	}
	db.rows = 2 * total
	commit(1)
	if err := behind.peers.catchUp(ctx, db, 0); err != nil || behind.position.revision != start+int64(total) {
		t.Errorf("at %d, want %d: %v", behind.position.revision, start+int64(total), err)
	}
	for i, e := range collect(ctx, t, w, strconv.Itoa(total-1)) {
		if e.Revision != start+int64(i)+1 {
			t.Fatalf("event %d has revision %d", i, e.Revision)
		}
	}
}

// If several callers find that the database is not a continuation, the cache is loaded again only once.
func TestHealedOnce(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	s := h.store
	made := mustCommit(t, s, createMap(t, "a"), createMap(t, "b"))
	// The janitor's tasks of the start are over when it has done what became due after them.
	h.clock.Step(time.Nanosecond)
	s.janitor.at(forget, s.clock.Now())
	for due := true; due; runtime.Gosched() {
		s.janitor.mu.Lock()
		due = !s.janitor.due[forget].IsZero()
		s.janitor.mu.Unlock()
	}
	busy, free := make(chan struct{}), make(chan struct{})
	s.queue.putTask(func() {
		close(busy)
		<-free
	})
	<-busy
	if err := s.peers.db.run("UPDATE meta SET origin = 'elsewhere'").scan(); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 16 {
		readers.Go(func() {
			if err := s.peers.catchUp(ctx, s.peers.db, 0); !errors.Is(err, resources.ErrUnavailable) {
				t.Errorf("the log of a database that is another: %v", err)
			}
		})
	}
	readers.Wait()
	s.queue.mu.Lock()
	waiting := len(s.queue.tasks)
	s.queue.mu.Unlock()
	if waiting != 1 {
		t.Errorf("%d tasks wait for the committer, want 1", waiting)
	}
	close(free)
	healed := make(chan struct{})
	s.queue.putTask(func() { close(healed) })
	<-healed
	wantExpired(ctx, t, s, made[0].Revision)
	if s.peers.healing.Load() {
		t.Error("it would not heal again")
	}
}
