package sqlstore

import (
	"runtime"
	"slices"

	"github.com/rowlock/rowlock/resources"
)

// apply makes committed changes visible: first to reads, then to watchers. It is the only way into the cache, whichever
// server made the changes. It is called with applying, and with events in the order of revisions and without gaps.
//
// The order of its steps keeps reads and watches consistent with each other: every tree and log is complete up to a
// revision before the store reports that revision, and a watcher is woken only after that. apply itself wakes only the
// watchers with a Wake: to wake all of them here would delay the writers, which are not answered yet.
func (s *Store) apply(events []*resources.Event) {
	byCollection := map[*collection][]*resources.Event{}
	for _, e := range events {
		c := s.collection(e.Object.Resource)
		byCollection[c] = append(byCollection[c], e)
		s.budget.add(c, e)
	}
	for c, changed := range byCollection {
		c.advance(changed)
	}
	s.revisions.advance(events[len(events)-1].Revision)
	for c, changed := range byCollection {
		if c.announce(changed) && !s.closing.Load() {
			s.waking.Go(func() { c.wake(runtime.Gosched) })
		}
	}
	s.budget.trim()
	s.pastCache.trim()
	s.metrics.applied(events)
}

// collection returns the cache of a resource type, which may be empty.
func (s *Store) collection(resource string) *collection {
	if c, ok := s.collections.Load(resource); ok {
		return c.(*collection)
	}
	s.creating.Lock()
	defer s.creating.Unlock()
	return s.create(resource)
}

// create is collection, called with creating: a collection that was made with the revision of an earlier load, and added
// after reload had replaced the others, would claim to know that nothing happened between the two.
func (s *Store) create(resource string) *collection {
	loaded := s.loaded.Load()
	c := &collection{resource: resource, packs: slices.Contains(s.options.Packed, resource), logStart: loaded, announced: loaded}
	c.tree.Store(&tree{last: loaded})
	actual, _ := s.collections.LoadOrStore(resource, c)
	return actual.(*collection)
}
