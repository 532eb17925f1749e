package sqlstore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/rowlock/rowlock/resources"
)

// Commit applies writes in one transaction; see resources.Writer.
func (s *Store) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(writes) == 0 {
		return nil, nil
	}
	r := &request{ctx: ctx, writes: writes, done: make(chan struct{})}
	for i := range writes {
		if data := writes[i].Draft.Data; !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
			// Postgres would refuse the whole batch.
			return nil, fmt.Errorf("the data of %s is not text in UTF-8", writes[i].Key)
		}
		r.size += len(writes[i].Draft.Data)
	}
	if !s.queue.put(r) {
		return nil, resources.ErrClosed
	}
	select {
	case <-r.done:
		return r.objects, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// request is one Commit on its way through the committer. The committer owns it until done is closed.
type request struct {
	ctx    context.Context
	writes []resources.Write
	size   int // bytes of the drafts

	done    chan struct{}
	objects []*resources.Object
	err     error
}

func (r *request) answer(err error) {
	if r.err == nil && err != nil {
		r.objects, r.err = nil, err
	}
	close(r.done)
}

// The bounds of a batch: beyond them a longer transaction gains nothing and keeps those in it waiting.
const (
	batchWrites = 512
	batchBytes  = 4 << 20
)

// queue holds what waits for the committer: writes, and upkeep that needs the connection that writes.
type queue struct {
	mu       sync.Mutex
	requests []*request
	tasks    []func()
	closed   bool
	wake     chan struct{} // has a value when something was put
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// put adds a request, unless the queue is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.requests = append(q.requests, r)
	q.signal()
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
	for {
		q.mu.Lock()
		batch = q.takeBatch()
		if len(q.tasks) > 0 {
			task = q.tasks[0]
			q.tasks = q.tasks[1:]
		}
		closed := q.closed
		q.mu.Unlock()
		if len(batch) > 0 || task != nil {
			return batch, task, true
		}
		if closed {
			return nil, nil, false
		}
		<-q.wake
	}
}

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

// close lets nothing more in. What is in the queue is still taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}
