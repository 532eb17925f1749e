package sqlstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

// futureWait is how long a read waits for a revision that has not come into being, as kube-apiserver does.
const futureWait = 3 * time.Second

// revisions is the revision that reads may see, and who waits for a later one.
type revisions struct {
	current atomic.Int64
	clock   clock.Clock

	mu      sync.Mutex
	waiters map[chan struct{}]int64
}

// advance raises the current revision and lets go who waited for it.
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

// wait returns when the store is at a revision or beyond. Errors: *resources.FutureRevisionError, the context's.
func (r *revisions) wait(ctx context.Context, revision int64) error {
	if r.current.Load() >= revision {
		return nil
	}
	ready := make(chan struct{})
	r.mu.Lock()
	if r.waiters == nil {
		r.waiters = map[chan struct{}]int64{}
	}
	r.waiters[ready] = revision
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiters, ready)
		r.mu.Unlock()
	}()
	// Looked at again because advance may have come between the first look and the registration.
	if r.current.Load() >= revision {
		return nil
	}
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
