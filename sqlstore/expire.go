package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// expireStep is how many objects are deleted at a time.
const expireStep = 256

// expire deletes objects at the end of their lifetime, and returns when the next one ends. Objects that cannot be
// decrypted, and so cannot be deleted, do not block the others: it returns their error after the others are deleted.
func (j *janitor) expire() (time.Time, error) {
	ctx := context.Background()
	s := j.store
	healing, cancel := context.WithTimeout(ctx, healWithin)
	defer cancel()
	var unreadable error
	for all := (due{}); ; {
		due, err := all.next(ctx, s.db, s.clock.Now(), expireStep)
		if err != nil {
			return time.Time{}, err
		}
		if len(due) == 0 && unreadable != nil {
			return time.Time{}, fmt.Errorf("an object whose lifetime is over cannot be deleted: %w", unreadable)
		}
		if len(due) == 0 {
			next, err := s.db.nextDue(ctx)
			if !next.IsZero() {
				next = next.Add(expirySlack)
			}
			return next, err
		}
		j.heal(healing, due)
		kept, err := j.deleteAll(ctx, due)
		if err != nil {
			return time.Time{}, err
		}
		unreadable = cmp.Or(unreadable, kept)
		select {
		case <-j.quit:
			return time.Time{}, nil
		default:
		}
	}
}

// healWithin is how long a round of expiry tries to read objects that could not be decrypted before.
const healWithin = 5 * time.Second

// heal reads objects again that are to be deleted and could not be decrypted: perhaps no client ever reads them.
func (j *janitor) heal(ctx context.Context, writes []resources.Write) {
	for _, w := range writes {
		if ctx.Err() != nil {
			return
		}
		if o, ok := j.store.collection(w.Key.Resource).tree.Load().objects.Get(w.Key.Path()); ok && o.Unreadable() != nil {
			_, _ = j.store.readable(ctx, o) // if it fails, the deletion has the error
		}
	}
}

// deleteAll commits each deletion separately: an object that was written meanwhile must not be deleted. unreadable is
// the error of an object that cannot be decrypted, if there is one.
func (j *janitor) deleteAll(ctx context.Context, writes []resources.Write) (unreadable, err error) {
	requests := make([]*request, 0, len(writes))
	for _, w := range writes {
		r := &request{ctx: ctx, writes: []resources.Write{w}, author: expiry, done: make(chan struct{})}
		r.size = j.store.measure(r)
		if !j.store.queue.put(r) {
			break
		}
		requests = append(requests, r)
	}
	var errs []error
	for _, r := range requests {
		<-r.done
		var conflict *resources.ConflictError
		var sealed *resources.TransformError
		switch {
		case r.err == nil, errors.As(r.err, &conflict), errors.Is(r.err, resources.ErrNotFound):
		case errors.As(r.err, &sealed):
			unreadable = r.err
		default:
			errs = append(errs, r.err)
		}
	}
	return unreadable, errors.Join(errs...)
}
