package sqlstore

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// patient is a queue that gathers for as long as it takes, after a batch of so many.
func patient(committed int) *queue {
	q := newQueue(limits{quiet: time.Hour, gather: time.Hour})
	q.noteCommit(committed)
	return q
}

// takeLater takes a batch, and returns when the committer gathers.
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

// A batch is of as many as the one before and those who came while that was committed.
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

// Who is alone does not wait, nor who comes when enough are there.
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

// Upkeep and the end are reasons not to wait longer.
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

// Where nobody comes in time, the batch is committed without.
func TestGatherInVain(t *testing.T) {
	q := patient(5)
	q.limits.quiet = time.Nanosecond
	q.putSome(1)
	wantBatch(t, q, 1)
}

// However many come, one after the other, nobody waits for long.
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

// An old signal is no reason to stop.
func TestGatherOldSignal(t *testing.T) {
	q := patient(3)
	q.putSome(1)
	q.signal()
	taken := takeLater(t, q)
	for signalled := true; signalled; runtime.Gosched() { // until it has seen that
		q.mu.Lock()
		signalled = len(q.wake) > 0
		q.mu.Unlock()
	}
	q.putSome(2)
	if batch := <-taken; len(batch) != 3 {
		t.Errorf("a batch of %d", len(batch))
	}
}

// Requests that are refused are writers as well: who is alone and only ever refused does not wait for those of before.
func TestGatherAfterRefusal(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "taken"))
	q := h.store.queue
	for range 2 {
		q.mu.Lock()
		q.writers = gatherMost // what is left of a crowd
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
