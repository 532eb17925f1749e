package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// expireStep is how many objects are deleted at a time.
const expireStep = 256

// expire deletes objects at the end of their lifetime, and returns when the next one ends.
func (j *janitor) expire() (time.Time, error) {
	ctx := context.Background()
	s := j.store
	for {
		due, err := s.db.due(ctx, s.clock.Now(), expireStep)
		if err != nil {
			return time.Time{}, err
		}
		if len(due) == 0 {
			next, err := s.db.nextDue(ctx)
			if !next.IsZero() {
				next = next.Add(expirySlack)
			}
			return next, err
		}
		if err := j.deleteAll(ctx, due); err != nil {
			return time.Time{}, err
		}
		select {
		case <-j.quit:
			return time.Time{}, nil
		default:
		}
	}
}

// deleteAll commits the deletions, each for itself: an object that was written meanwhile is not to go.
func (j *janitor) deleteAll(ctx context.Context, writes []resources.Write) error {
	requests := make([]*request, 0, len(writes))
	for _, w := range writes {
		r := &request{ctx: ctx, writes: []resources.Write{w}, author: expiry, done: make(chan struct{})}
		if !j.store.queue.put(r) {
			break
		}
		requests = append(requests, r)
	}
	var errs []error
	for _, r := range requests {
		<-r.done
		var conflict *resources.ConflictError
		if r.err != nil && !errors.As(r.err, &conflict) && !errors.Is(r.err, resources.ErrNotFound) {
			errs = append(errs, r.err)
		}
	}
	return errors.Join(errs...)
}
