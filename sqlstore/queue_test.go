package sqlstore

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// patient returns a queue that gathers without a time limit, after a batch of so many requests.
func patient(committed int) *queue {
	q := newQueue(limits{quiet: time.Hour, gather: time.Hour})
	q.noteCommit(committed)
	return q
}

// takeLater starts to take a batch, and returns when the committer gathers.
func takeLater(t *testing.T, q *queue) <-chan []*request {
	t.Helper()
	taken := make(chan []*request, 1)
	go func() {
		batch, _, _ := q.take()
		taken <- batch
	}()
	for {
		q.mu.Lock()
		gathers := q.want > 0
		q.mu.Unlock()
		if gathers {
			return taken
		}
		select {
		case batch := <-taken:
			t.Fatalf("a batch of %d was taken at once", len(batch))
		default:
			runtime.Gosched()
		}
	}
}

func wantBatch(t *testing.T, q *queue, n int) {
	t.Helper()
	if batch, _, ok := q.take(); len(batch) != n || !ok {
		t.Fatalf("a batch of %d, want %d (%t)", len(batch), n, ok)
	}
}

func (q *queue) putSome(n int) {
	for range n {
		q.put(&request{})
	}
}

// A batch has as many requests as the previous one and those that came while that was committed.
func TestGather(t *testing.T) {
	q := patient(0)
	q.putSome(1)
	q.noteCommit(3)
	taken := takeLater(t, q)
	q.putSome(2)
	q.mu.Lock()
	still := q.want > 0 && len(q.requests) == 3
	q.mu.Unlock()
	q.putSome(1)
	if batch := <-taken; len(batch) != 4 || !still {
		t.Errorf("a batch of %d; with three it waited: %t", len(batch), still)
	}
}

// A single client does not wait, nor does a request that comes when there are enough.
func TestGatherNobodyElse(t *testing.T) {
	q := patient(0)
	for range 3 {
		q.putSome(1)
		wantBatch(t, q, 1)
		q.noteCommit(1)
	}
	q.noteCommit(100)
	q.putSome(gatherMost)
	wantBatch(t, q, gatherMost)
}

// Upkeep and the end of the queue stop gathering.
func TestGatherEnds(t *testing.T) {
	for name, end := range map[string]func(*queue){
		"task":  func(q *queue) { q.putTask(func() {}) },
		"close": (*queue).close,
	} {
		t.Run(name, func(t *testing.T) {
			q := patient(5)
			q.putSome(1)
			taken := takeLater(t, q)
			end(q)
			if batch := <-taken; len(batch) != 1 {
				t.Errorf("a batch of %d", len(batch))
			}
		})
	}
}

// If no further requests come in time, the batch is committed without them.
func TestGatherInVain(t *testing.T) {
	q := patient(5)
	q.limits.quiet = time.Nanosecond
	q.putSome(1)
	wantBatch(t, q, 1)
}

// Even if requests keep coming, none waits for long.
func TestGatherIsBounded(t *testing.T) {
	q := patient(gatherMost)
	q.limits.quiet, q.limits.gather = time.Millisecond, 1
	q.putSome(1)
	taken := takeLater(t, q)
	q.putSome(1)
	if batch := <-taken; len(batch) > 2 {
		t.Errorf("a batch of %d", len(batch))
	}
}

// An old signal does not stop gathering.
func TestGatherOldSignal(t *testing.T) {
	q := patient(3)
	q.putSome(1)
	q.signal()
	taken := takeLater(t, q)
	for signalled := true; signalled; runtime.Gosched() { // until the committer has seen the old signal
		q.mu.Lock()
		signalled = len(q.wake) > 0
		q.mu.Unlock()
	}
	q.putSome(2)
	if batch := <-taken; len(batch) != 3 {
		t.Errorf("a batch of %d", len(batch))
	}
}

// Refused requests count as writers as well: a single client whose requests are all refused does not wait for the
// earlier clients.
func TestGatherAfterRefusal(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "taken"))
	q := h.store.queue
	for range 2 {
		q.mu.Lock()
		q.writers = gatherMost // of earlier clients
		q.mu.Unlock()
		if _, err := h.store.Commit(t.Context(), createMap(t, "taken")); !errors.Is(err, resources.ErrExists) {
			t.Fatal(err)
		}
		q.mu.Lock()
		left := q.writers
		q.mu.Unlock()
		if left > 1 {
			t.Errorf("the next waits for %d", left)
		}
	}
}
