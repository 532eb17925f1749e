package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// holdCommitter keeps the committer busy until the function that it returns is called.
func holdCommitter(t *testing.T, s *Store) (release func()) {
	t.Helper()
	held, end := make(chan struct{}), make(chan struct{})
	if !s.queue.putTask(func() { close(held); <-end }) {
		t.Fatal("the queue is closed")
	}
	<-held
	release = sync.OnceFunc(func() { close(end) })
	t.Cleanup(release)
	return release
}

// awaitQueued returns when so many requests wait for the committer.
func awaitQueued(ctx context.Context, t *testing.T, s *Store, n int) {
	t.Helper()
	for queued := -1; queued != n; runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatalf("%d requests wait, want %d", queued, n)
		}
		s.queue.mu.Lock()
		queued = len(s.queue.requests)
		s.queue.mu.Unlock()
	}
}

// While the committer is stuck, a commit whose client goes leaves the queue, and is not written later. The others are,
// in their order.
func TestCommitLeavesTheQueue(t *testing.T) {
	for name, s := range map[string]*Store{"SQLite": newSQLiteHarness(t).store, "Postgres": newPostgresHarness(t).store} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			release := holdCommitter(t, s)
			const n = 5
			revisions := make([]int64, n)
			var staying, going sync.WaitGroup
			leaving, leave := context.WithCancel(ctx)
			for i := range n {
				staying.Go(func() {
					made, err := s.Commit(ctx, createMap(t, fmt.Sprint("stays-", i)))
					if err != nil {
						t.Error(err)
						return
					}
					revisions[i] = made[0].Revision
				})
				awaitQueued(ctx, t, s, 2*i+1)
				going.Go(func() {
					if _, err := s.Commit(leaving, createMap(t, fmt.Sprint("goes-", i))); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
				awaitQueued(ctx, t, s, 2*i+2)
			}
			leave()
			going.Wait()
			awaitQueued(ctx, t, s, n)
			release()
			staying.Wait()
			for i, r := range revisions {
				if r != revisions[0]+int64(i) {
					t.Errorf("revisions %v", revisions)
					break
				}
			}
			if there := mustSnapshot(t, s, resources.At{}); there.Count("", "") != n {
				t.Errorf("%d objects, want %d", there.Count("", ""), n)
			}
		})
	}
}

// A client that goes while its request is taken gets one answer or the other; what it wrote is there once or not at all.
func TestCommitLeavesWhileItIsTaken(t *testing.T) {
	for name, s := range map[string]*Store{"SQLite": newSQLiteHarness(t).store, "Postgres": newPostgresHarness(t).store} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			start := s.revisions.current.Load()
			w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			var mu sync.Mutex
			written := map[string]int64{}
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for n := range 25 {
						name := fmt.Sprintf("%d-%d", i, n)
						leaving, leave := context.WithCancel(ctx)
						all.Go(leave)
						made, err := s.Commit(leaving, createMap(t, name))
						if err == nil {
							mu.Lock()
							written[name] = made[0].Revision
							mu.Unlock()
						} else if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			last := mustCommit(t, s, createMap(t, "last"))[0].Revision
			got := follow(ctx, t, w, last)
			for i, r := range got {
				if r != start+1+int64(i) {
					t.Fatalf("the watch saw %v after %d", got, start)
				}
			}
			for name, r := range written {
				if !slices.Contains(got, r) {
					t.Errorf("%s was answered with %d, which the watch did not see", name, r)
				}
			}
			awaitQueued(ctx, t, s, 0)
		})
	}
}

// measuredDriver notes how many bytes each batch adds to history.
type measuredDriver struct {
	driver
	sizes *[]int64
}

func (d measuredDriver) begin(after int64) (transaction, *page, error) {
	tx, page, err := d.driver.begin(after)
	return measuredTransaction{tx, d.sizes}, page, err
}

type measuredTransaction struct {
	transaction
	sizes *[]int64
}

func (t measuredTransaction) commit(b *batch) error {
	*t.sizes = append(*t.sizes, b.size)
	return t.transaction.commit(b)
}

// The bound of a batch counts the objects that deletes write into the log, and those that updates store as the object
// before (in Postgres), also while they are packed in memory.
func TestBatchCountsPreviousObjects(t *testing.T) {
	packing(t, func(t *testing.T, s *Store, _ func() *Store) {
		for name, op := range map[string]resources.Op{"update": resources.Update, "delete": resources.Delete, "expiry": resources.Delete} {
			const n, size = 12, 1 << 20
			var writes []resources.Write
			for i := range n {
				writes = append(writes, largeMap(t, resources.Create, fmt.Sprint(name, "-", i), 0, size))
			}
			made := mustCommit(t, s, writes...)
			packAll(s)
			s.clock.(*clocktesting.FakeClock).Step(2 * storetest.HistoryAge)
			if _, err := s.janitor.prune(); err != nil {
				t.Fatal(err)
			}
			for i, o := range made {
				writes[i] = resources.Write{Op: op, Key: o.Key, From: o.Revision}
				if op == resources.Update {
					writes[i].Draft = draft(t, "default", o.Name)
				}
			}
			total := int64(0)
			sizes := measureBatches(t, s, writes, name == "expiry")
			for _, size := range sizes {
				total += size
			}
			if large := op == resources.Delete || s.Shared(); large && total < n*size || slices.Max(sizes) > batchBytes {
				t.Errorf("%s: batches of %v bytes, at most %d are wanted", name, sizes, batchBytes)
			}
		}
	})
}

// measureBatches commits writes that come while the committer is busy, each alone, and returns how many bytes each
// batch adds to history. expires: they are the janitor's.
func measureBatches(t *testing.T, s *Store, writes []resources.Write, expires bool) (sizes []int64) {
	t.Helper()
	ctx := testContext(t)
	release := holdCommitter(t, s)
	unmeasured := s.db.driver
	s.db.driver = measuredDriver{unmeasured, &sizes}
	var all sync.WaitGroup
	if expires {
		all.Go(func() {
			if unreadable, err := s.janitor.deleteAll(ctx, writes); unreadable != nil || err != nil {
				t.Error(unreadable, err)
			}
		})
	} else {
		for _, w := range writes {
			all.Go(func() {
				if _, err := s.Commit(ctx, w); err != nil {
					t.Error(err)
				}
			})
		}
	}
	awaitQueued(ctx, t, s, len(writes))
	release()
	all.Wait()
	release = holdCommitter(t, s)
	s.db.driver = unmeasured
	release()
	return sizes
}
