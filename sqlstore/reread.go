package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/rowlock/rowlock/resources"
)

// What cannot be decrypted stays in the trees as an object that is Unreadable, so that everything else can be read and its revision is
// known. Whoever wants it has the row read once more: a KMS plugin may answer now, or the key may be there since the configuration
// was read again. What can be read then takes its place.

// reread reads the row of an object that was Unreadable. Errors: *resources.TransformError; resources.ErrNotFound, when the object is at
// another revision by now; resources.ErrUnavailable; the context's.
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

// row is what the database has of an object at a revision. Errors: resources.ErrNotFound, resources.ErrUnavailable, the context's.
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

// readable returns the object, read once more if need be. Errors: those of reread.
func (s *Store) readable(ctx context.Context, o *resources.Object) (*resources.Object, error) {
	unreadable := o.Unreadable()
	if unreadable == nil {
		return o.Unpacked(), nil
	}
	now, err := s.reread(ctx, o)
	switch {
	case errors.Is(err, resources.ErrNotFound):
		return nil, unreadable // and so is what was asked for
	case err != nil:
		return nil, err
	}
	s.collection(o.Resource).heal(o, now)
	return now, nil
}

// heal puts an object in the place of one that was Unreadable, if that is still there.
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

// readableAll returns the present state with every object in it readable that at is about. Errors: those of reread, of which a
// *resources.TransformError names the first object that cannot be read.
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

// eachUnreadable yields the objects that at is about and that cannot be read, until yield returns false.
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

// amongUnreadable is the error of a list in which an object cannot be read: it names the others after it, too, as they were when they were
// read last, so that nobody is asked about all of them.
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

// readablePast is the error of a list of a past state: nil when every object that at is about can be read.
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

// Stale tells whether the database has an object, as it is at its revision, encrypted in another way than it would be now, or not at
// all though it should be. An update of it is then to be written, though it may change nothing. What cannot be read is not told of.
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
