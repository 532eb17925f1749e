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
		j.heal(due)
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

// healWithin is how long a round of expiry tries to read what could not be decrypted before.
const healWithin = 5 * time.Second

// heal reads again what is to be deleted and could not be decrypted: nobody else may ask for it.
func (j *janitor) heal(writes []resources.Write) {
	ctx, cancel := context.WithTimeout(context.Background(), healWithin)
	defer cancel()
	for _, w := range writes {
		if o, ok := j.store.collection(w.Key.Resource).tree.Load().objects.Get(w.Key.Path()); ok && o.Unreadable() != nil {
			_, _ = j.store.readable(ctx, o) // the deletion has the error
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
