package sqlstore

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/resources"
)

// past returns the state of a resource type at a revision that is not in the future, by taking later changes back.
func (s *Store) past(ctx context.Context, resource string, revision int64) (snapshot, error) {
	if floor := s.floor.Load(); revision < floor {
		return snapshot{}, &resources.ExpiredError{Requested: revision, Oldest: floor}
	}
	key := pastKey{resource, revision}
	if t := s.pastCache.get(key); t != nil {
		return snapshot{tree: t, revision: revision}, nil
	}
	if t := s.collection(resource).tree.Load(); t.last <= revision { // loaded once: a second load may return a later tree
		return snapshot{tree: t, revision: revision}, nil
	}
	leave, err := s.pastCache.enter(ctx)
	if err != nil {
		return snapshot{}, err
	}
	defer leave()
	if t := s.pastCache.get(key); t != nil { // another list has computed it meanwhile
		return snapshot{tree: t, revision: revision}, nil
	}
	t, err := s.makePast(ctx, key)
	if err != nil {
		return snapshot{}, err
	}
	s.janitor.at(forget, s.clock.Now().Add(pastCacheAge))
	return snapshot{tree: t, revision: revision}, nil
}

// makePast computes a past state from the present one. Errors: those of past.
func (s *Store) makePast(ctx context.Context, key pastKey) (*tree, error) {
	c := s.collection(key.resource)
	c.mu.Lock()
	now, replaced := c.tree.Load(), c.replaced.Load()
	recent, complete := c.after(key.revision)
	recent = append([]*resources.Event(nil), recent...)
	logStart := c.logStart
	c.mu.Unlock()
	u := undo{tree: now.edit(), done: map[string]bool{}, room: s.pastCache, ctx: ctx}
	err := func() error {
		for from := key.revision; !complete && from < logStart; {
			page, err := s.db.history(ctx, historyQuery{resource: key.resource, after: from, upTo: logStart, limit: historyPage, unreadable: true})
			if err != nil {
				return err
			}
			if err := u.take(page.events); err != nil {
				return err
			}
			from = page.upTo
		}
		return u.take(recent)
	}()
	var tooLarge *tooLargeError
	switch {
	case errors.As(err, &tooLarge):
		err = &resources.ExpiredError{Requested: key.revision, Oldest: s.revisions.current.Load()}
	case err == nil:
		u.tree.last = key.revision
		s.pastCache.add(&pastEntry{key: key, tree: u.tree, size: u.size, collection: c, replaced: replaced})
		return u.tree, nil
	}
	s.pastCache.release(u.size)
	return nil, err
}

// undo takes changes back. Only the first change of each object counts, since it has the object before all of them.
type undo struct {
	tree *tree
	done map[string]bool

	room *pastCache
	ctx  context.Context
	size int64 // bytes reserved so far
}

// undoOverhead is about how many bytes of tree nodes it takes to replace an object in the copy of a tree.
const undoOverhead = 1 << 10

func (u *undo) take(events []*resources.Event) error {
	for _, e := range events {
		path := e.Object.Path()
		if u.done[path] {
			continue
		}
		size := int64(undoOverhead)
		if e.Prev != nil {
			size += e.Prev.Size()
		}
		if err := u.room.reserve(u.ctx, size, u.size); err != nil {
			return err
		}
		u.size += size
		u.done[path] = true
		u.tree.set(path, e.Prev)
	}
	return nil
}
