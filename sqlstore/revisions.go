package sqlstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

// futureWait is how long a read waits for a future revision, as in kube-apiserver.
const futureWait = 3 * time.Second

// revisions holds the revision that reads may see, and the callers that wait for a later one.
type revisions struct {
	current atomic.Int64
	clock   clock.Clock

	mu      sync.Mutex
	waiters map[chan struct{}]int64
}

// advance raises the current revision and releases the callers that waited for it.
func (r *revisions) advance(to int64) {
	r.current.Store(to)
	r.mu.Lock()
	defer r.mu.Unlock()
	for ready, wanted := range r.waiters {
		if wanted <= to {
			delete(r.waiters, ready)
			close(ready)
		}
	}
}

// reached returns a channel that is closed when the store is at a revision or beyond. forget stops waiting.
func (r *revisions) reached(revision int64) (ready chan struct{}, forget func()) {
	ready = make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	// Checked under the lock: advance raises the revision before it looks at the waiters.
	if r.current.Load() >= revision {
		close(ready)
		return ready, func() {}
	}
	if r.waiters == nil {
		r.waiters = map[chan struct{}]int64{}
	}
	r.waiters[ready] = revision
	return ready, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiters, ready)
	}
}

// wait returns when the store is at a revision or beyond. Errors: *resources.FutureRevisionError, the context's.
func (r *revisions) wait(ctx context.Context, revision int64) error {
	if r.current.Load() >= revision {
		return nil
	}
	ready, forget := r.reached(revision)
	defer forget()
	timer := r.clock.NewTimer(futureWait)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-timer.C():
		return &resources.FutureRevisionError{Requested: revision, Current: r.current.Load()}
	case <-ctx.Done():
		return ctx.Err()
	}
}
