package sqlstore

import (
	"slices"
	"sync"
	"time"
)

// The bounds of a batch: a longer transaction gains nothing and delays its requests.
const (
	batchWrites = 512
	batchBytes  = 4 << 20
)

// queue holds the work that waits for the committer: writes, and upkeep that needs the connection that writes.
//
// A transaction costs nearly the same for one write as for ten, and with a fast disk the committer finishes a
// transaction before the next write is computed. So take waits until there are as many requests as there were before:
// those of the previous batch, and those that came while it was committed, most of which are of other clients. A single
// client does not wait. The committer waits at most limits.quiet for another request, and limits.gather in total.
// docs/group-commit.md has measurements.
type queue struct {
	limits limits

	mu       sync.Mutex
	requests []*request
	tasks    []func()
	closed   bool
	wake     chan struct{} // has a value when the committer is to look at the queue now

	writers int // requests of the last batch, and those that waited when it was done
	want    int // number of requests that wakes the committer; 0 while it does not gather
}

// gatherMost is how many requests are enough: with more, the cost of each hardly falls.
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

// withdraw removes a request whose client has gone, so that it does not keep its drafts while the database stalls. It
// does nothing once the committer has taken the request: every request is either taken once, or never.
func (q *queue) withdraw(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.requests, r); i >= 0 {
		q.requests = slices.Delete(q.requests, i, i+1)
	}
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

// await waits for a signal, which may be an old one, or for a timer. Called with mu, which it releases meanwhile.
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

// gather waits until there are want requests, none came for limits.quiet, limits.gather has passed, or there is other
// work. Called with mu.
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

// takeBatch takes the requests of the next transaction. Called with mu.
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

// noteCommit notes that a batch of n requests is finished. It is called before any of them is answered, so the requests
// that wait by now are of other clients.
func (q *queue) noteCommit(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writers = n + len(q.requests)
}

// close refuses new work. Work that is in the queue is still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}
