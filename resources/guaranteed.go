package resources

import (
	"context"
	"errors"
)

// GuaranteedUpdate computes a change from the current object and commits it, and repeats both while other writers come in between. It calls
// change with the object, or with nil when there is none. change returns the writes of the change (the first is the object's own), or none
// to leave everything unchanged; it may be called several times and must compute from its argument alone, and its error ends the loop.
//
// It returns the object that was stored, or the current one when change returned no writes. A loop that keeps losing ends with the context's
// error. Errors: those of change, and those of Commit. *ConflictError, ErrExists and ErrNotFound of the object itself lead to another round
// instead. ErrExists of a first write under another key does not: change would compute the same taken key again. Nor does an
// *ExpectationError: the expectation of change is not computed from its argument, so change would expect the same again.
func GuaranteedUpdate(ctx context.Context, s Store, key Key, change func(current *Object) ([]Write, error)) (*Object, error) {
	current, err := s.Get(ctx, key, At{Match: Any})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	// The object from the cache may be behind the database (another server wrote). A commit finds that out, so only a round without writes
	// has to make sure that it saw the most recent state.
	fresh := false
	for {
		writes, err := change(current)
		if err != nil || len(writes) == 0 {
			if fresh {
				return current, err
			}
			latest, gerr := s.Get(ctx, key, At{Match: MostRecent})
			if gerr != nil && !errors.Is(gerr, ErrNotFound) {
				return nil, gerr
			}
			if same(latest, current) {
				return current, err
			}
			current, fresh = latest, true
			continue
		}
		commit := s.Commit
		if writes[0].Op != Delete {
			commit = func(ctx context.Context, writes ...Write) ([]*Object, error) { return commitNew(ctx, s, writes) }
		}
		stored, err := commit(ctx, writes...)
		if err == nil {
			return stored[0], nil
		}
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict) && conflict.Key == key:
			current = conflict.Current
		case errors.Is(err, ErrExists) && writes[0].Key != key && isTaken(ctx, s, writes[0].Key):
			return nil, err
		case errors.As(err, &conflict), errors.Is(err, ErrExists), errors.Is(err, ErrNotFound), errors.Is(err, errTaken):
			if current, err = s.Get(ctx, key, At{Match: MostRecent}); err != nil && !errors.Is(err, ErrNotFound) {
				return nil, err
			}
		default:
			return nil, err
		}
		fresh = true
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// isTaken reports whether the object exists, as opposed to an object of another write of the same commit.
func isTaken(ctx context.Context, s Store, key Key) bool {
	_, err := s.Get(ctx, key, At{Match: MostRecent})
	return err == nil
}

func same(a, b *Object) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Revision == b.Revision
}
