package sqlstore

import (
	"context"
	"sync"
)

// recent reads the counter for reads at "most recent". One query runs at a time; a read that comes meanwhile waits for
// the next query, since the answer of the running one may be older than a revision that its caller knows.
type recent struct {
	learn func() (int64, error)

	mu      sync.Mutex
	running bool
	next    *answer // the answer that reads wait for; its query runs after the present one
	work    sync.WaitGroup
}

type answer struct {
	done     chan struct{}
	revision int64
	err      error
}

// ask returns the counter as it was at some moment after the call.
func (r *recent) ask(ctx context.Context) (int64, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &answer{done: make(chan struct{})}
	}
	a := r.next
	if !r.running {
		r.running = true
		r.work.Go(r.run)
	}
	r.mu.Unlock()
	select {
	case <-a.done:
		return a.revision, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run queries until no read waits.
func (r *recent) run() {
	for {
		r.mu.Lock()
		a := r.next
		r.next = nil
		if a == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		a.revision, a.err = r.learn()
		close(a.done)
	}
}

// wait returns when no query is running.
func (r *recent) wait() { r.work.Wait() }
