package sqlstore

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/resources"
)

// Get returns an object; see resources.Reader.
func (s *Store) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	now, err := s.present(ctx, key.Resource, at)
	if err != nil {
		return nil, err
	}
	o, ok := now.tree.objects.Get(key.Path())
	if !ok {
		return nil, resources.ErrNotFound
	}
	if o.Unreadable() != nil {
		return s.readable(ctx, o)
	}
	return o.Unpacked(), nil
}

// Kept returns an object as the cache keeps it, which may be packed, for callers that keep it for long. Nil: there is
// none.
func (s *Store) Kept(key resources.Key) *resources.Object {
	o, _ := s.tree(key.Resource).objects.Get(key.Path())
	return o
}

// Snapshot returns the objects of a resource type; see resources.Reader.
func (s *Store) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	now, err := s.present(ctx, resource, at)
	if err == nil && now.tree.unreadable > 0 {
		now, err = s.readableAll(ctx, resource, at)
	}
	if unread := (*resources.TransformError)(nil); at.Match == resources.Exact && errors.As(err, &unread) {
		err = nil // the past state may be readable
	}
	if err != nil {
		return nil, err
	}
	if at.Match != resources.Exact {
		return now, nil
	}
	past, err := s.past(ctx, resource, at.Revision)
	if err == nil {
		if err = past.tree.readablePast(at); err != nil {
			s.pastCache.forget(pastKey{resource, at.Revision}) // a newly computed state may be readable
		}
	}
	if err != nil {
		return nil, err
	}
	return past, nil
}

// Changed returns up to where a resource type may have changed; see resources.Reader. The tree is replaced before
// revisions.current reaches the revision that lets reads show it.
func (s *Store) Changed(resource string) int64 { return s.tree(resource).last }

// Amount returns how much there is of a resource type; see resources.Reader.
func (s *Store) Amount(resource string) resources.Amount { return s.tree(resource).amount() }

// present returns the newest visible state, once that is as new as at requires.
func (s *Store) present(ctx context.Context, resource string, at resources.At) (snapshot, error) {
	if err := ctx.Err(); err != nil {
		return snapshot{}, err
	}
	if err := s.awaitPoint(ctx, at); err != nil {
		return snapshot{}, err
	}
	// The revision is read before the tree: a tree that is read later has every change up to it.
	revision := s.revisions.current.Load()
	t := s.tree(resource)
	if t.last > revision {
		// The tree belongs to a batch that is being applied. An answer from it now would show a change while changes of
		// the same batch in other types are not visible yet; the rest of apply takes microseconds.
		if err := s.revisions.wait(ctx, t.last); err != nil {
			return snapshot{}, err
		}
		revision = t.last
	}
	return snapshot{tree: t, revision: revision}, nil
}

// awaitPoint returns when the cache is as new as at requires.
func (s *Store) awaitPoint(ctx context.Context, at resources.At) error {
	switch at.Match {
	case resources.Any:
		return nil
	case resources.MostRecent:
		// Without other servers this is Any: apply comes before the answer to a writer.
		if s.peers != nil {
			return s.peers.refresh(ctx)
		}
		return nil
	}
	if at.Revision > s.revisions.current.Load() && s.peers != nil {
		if err := s.peers.refresh(ctx); err != nil {
			return err
		}
	}
	return s.revisions.wait(ctx, at.Revision)
}

// tree returns the present state of a resource type, without creating a collection for a type without writes.
func (s *Store) tree(resource string) *tree {
	if c, ok := s.collections.Load(resource); ok {
		return c.(*collection).tree.Load()
	}
	return &tree{}
}
