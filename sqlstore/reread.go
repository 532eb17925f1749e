package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rowlock/rowlock/resources"
)

// An object that cannot be decrypted stays in the trees as Unreadable, so that everything else can be read and its
// revision is known. A request for it reads its row again: a KMS plugin may answer now, or the configuration may have
// been read again and have the key. An object that can be read then replaces it.

// reread reads the row of an object that was Unreadable. Errors: *resources.TransformError; resources.ErrNotFound if
// the object is at another revision now; resources.ErrUnavailable; the context's.
func (s *Store) reread(ctx context.Context, was *resources.Object) (*resources.Object, error) {
	row, err := s.db.row(ctx, was.Key, was.Revision)
	if err != nil {
		return nil, err
	}
	data, f, _, err := s.sealer.open(ctx, was.Key, row)
	if err != nil {
		return nil, &resources.TransformError{Key: was.Key, Err: err, Revision: was.Revision}
	}
	l := loader{}
	return l.build(was.Key, was.Revision, data, f), nil
}

// row returns the stored row of an object at a revision. Errors: resources.ErrNotFound, resources.ErrUnavailable, the
// context's.
func (d *database) row(ctx context.Context, key resources.Key, revision int64) (row sealed, err error) {
	found := false
	err = d.each(ctx, func(scan func(...any) error) error {
		found = true
		var data sql.NullString
		if err := scan(&data, &row.fields); err != nil {
			return unavailable(err)
		}
		row.data = data.String
		return nil
	}, selectRowSQL, key.Resource, key.Namespace, key.Name, revision)
	if err == nil && !found {
		err = resources.ErrNotFound
	}
	return row, err
}

// readable returns the object, read again if it was Unreadable. Errors: those of reread.
func (s *Store) readable(ctx context.Context, o *resources.Object) (*resources.Object, error) {
	unreadable := o.Unreadable()
	if unreadable == nil {
		return o.Unpacked(), nil
	}
	now, err := s.reread(ctx, o)
	switch {
	case errors.Is(err, resources.ErrNotFound):
		return nil, unreadable // the request was for o, and o is unreadable
	case err != nil:
		return nil, err
	}
	s.collection(o.Resource).heal(o, now)
	return now, nil
}

// heal replaces an object that was Unreadable, if the tree still has it.
func (c *collection) heal(was, now *resources.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	present := c.tree.Load()
	if o, _ := present.objects.Get(was.Path()); o != was {
		return
	}
	next := present.edit()
	next.set(was.Path(), now)
	c.tree.Store(next)
}

// readableAll returns the present state, with every object in the scope of at readable. Errors: those of reread, of
// which *resources.TransformError names the first object that cannot be read.
func (s *Store) readableAll(ctx context.Context, resource string, at resources.At) (snapshot, error) {
	for {
		now, err := s.present(ctx, resource, at)
		if err != nil {
			return now, err
		}
		again := false
		now.tree.eachUnreadable(at, func(o *resources.Object) bool {
			again = true
			_, err = s.readable(ctx, o)
			return err == nil
		})
		var unreadable *resources.TransformError
		if errors.As(err, &unreadable) {
			return now, now.tree.amongUnreadable(unreadable, at)
		}
		if err != nil || !again {
			return now, err
		}
	}
}

// eachUnreadable yields the unreadable objects in the scope of at, until yield returns false.
func (t *tree) eachUnreadable(at resources.At, yield func(*resources.Object) bool) {
	if at.Name != "" {
		if o, _ := t.objects.Get(resources.Key{Namespace: at.Namespace, Name: at.Name}.Path()); o.Unreadable() != nil {
			yield(o)
		}
		return
	}
	first, end := bounds(at.Namespace, "")
	t.objects.Ascend(first, func(path string, o *resources.Object) bool {
		return (end == "" || path < end) && (o.Unreadable() == nil || yield(o))
	})
}

// amongUnreadable is the error of a list with an unreadable object: it also names the later ones, with their last
// errors, so that no KMS plugin has to be called for all of them.
func (t *tree) amongUnreadable(first *resources.TransformError, at resources.At) *resources.TransformError {
	all := *first
	all.Among = true
	after := first.Key.Path()
	t.eachUnreadable(at, func(o *resources.Object) bool {
		if o.Path() > after {
			all.Others = append(all.Others, o.Unreadable())
		}
		return len(all.Others) < resources.UnreadableMost-1
	})
	return &all
}

// readablePast is the error of a list of a past state: nil if every object in the scope of at can be read.
func (t *tree) readablePast(at resources.At) (err error) {
	if t.unreadable == 0 {
		return nil
	}
	t.eachUnreadable(at, func(o *resources.Object) bool {
		err = t.amongUnreadable(o.Unreadable(), at)
		return false
	})
	return err
}

// Stale reports whether the row of an object at its revision is encrypted differently than it would be now, or is not
// encrypted although it should be. An update of it is then written even if it changes nothing. It is false for an
// object that cannot be read.
func (s *Store) Stale(ctx context.Context, o *resources.Object) bool {
	if s.sealer.transformers == nil {
		return false
	}
	row, err := s.db.row(ctx, o.Key, o.Revision)
	if err != nil {
		return false
	}
	_, _, stale, err := s.sealer.open(ctx, o.Key, row)
	return err == nil && stale
}
