package sqlstore

import (
	"sync"
	"time"
)

// The bounds of a batch: beyond them a longer transaction gains nothing and keeps those in it waiting.
const (
	batchWrites = 512
	batchBytes  = 4 << 20
)

// queue holds what waits for the committer: writes, and upkeep that needs the connection that writes.
//
// A transaction costs nearly the same for one write as for ten, and with a fast disk the committer is done with one before
// the next write is computed. So it waits until there are as many as there were at a time: those of the batch before, and
// those that came while that was committed, most of which are of other clients. Who is alone does not wait, and nobody
// waits longer than limits.quiet for another, or limits.gather for all. docs/group-commit.md has what that gains.
type queue struct {
	limits limits

	mu       sync.Mutex
	requests []*request
	tasks    []func()
	closed   bool
	wake     chan struct{} // has a value when something was put that the committer is to see now

	writers int // requests that were there at a time
	want    int // how many are to come before the committer looks; 0 while it does not gather
}

// gatherMost is how many requests are enough: more make each of them hardly cheaper.
const gatherMost = 16

func newQueue(l limits) *queue { return &queue{limits: l, wake: make(chan struct{}, 1)} }

// put adds a request, unless the queue is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.requests = append(q.requests, r)
	if len(q.requests) >= q.want {
		q.signal()
	}
	return true
}

// putTask adds upkeep, unless the queue is closed. Tasks run one at a time, between batches.
func (q *queue) putTask(task func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.tasks = append(q.tasks, task)
	q.signal()
	return true
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take waits for work and returns a batch of requests, a task, or both. ok is false when the queue is closed and empty.
func (q *queue) take() (batch []*request, task func(), ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if len(q.requests) > 0 {
			q.gather(min(q.writers, gatherMost))
		}
		batch = q.takeBatch()
		if len(q.tasks) > 0 {
			task = q.tasks[0]
			q.tasks = q.tasks[1:]
		}
		if len(batch) > 0 || task != nil {
			return batch, task, true
		}
		if q.closed {
			return nil, nil, false
		}
		q.await(nil)
	}
}

// await waits for a signal, which may be an old one, or for a timer. Called with mu, which it gives back meanwhile.
func (q *queue) await(timer <-chan time.Time) (late bool) {
	q.mu.Unlock()
	defer q.mu.Lock()
	select {
	case <-q.wake:
		return false
	case <-timer:
		return true
	}
}

// gather waits until there are so many requests, none came for a while, it has taken too long, or there is something else to
// do. Called with mu.
func (q *queue) gather(want int) {
	if len(q.requests) >= want {
		return
	}
	q.want = want
	defer func() { q.want = 0 }()
	begun := time.Now()
	timer := time.NewTimer(q.limits.quiet)
	defer timer.Stop()
	for seen := len(q.requests); len(q.requests) < want && len(q.tasks) == 0 && !q.closed; {
		if !q.await(timer.C) {
			continue
		}
		if len(q.requests) == seen || time.Since(begun) >= q.limits.gather {
			return
		}
		seen = len(q.requests)
		timer.Reset(q.limits.quiet)
	}
}

// takeBatch takes what goes into one transaction. Called with mu.
func (q *queue) takeBatch() []*request {
	n, writes, bytes := 0, 0, 0
	for _, r := range q.requests {
		writes += len(r.writes)
		bytes += r.size
		if n > 0 && (writes > batchWrites || bytes > batchBytes) {
			break
		}
		n++
	}
	batch := q.requests[:n:n]
	q.requests = q.requests[n:]
	if len(q.requests) == 0 {
		q.requests = nil
	}
	return batch
}

// noteCommit is told that the batch that was taken, of so many requests, is done with, before anybody learns of it: those
// that wait by now are of others.
func (q *queue) noteCommit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writers = n + len(q.requests)
}

// close lets nothing more in. What is in the queue is still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}
