package sqlstore

import (
	"slices"

	"github.com/rowlock/rowlock/resources"
)

// wakeRound holds the changes that were announced and not yet brought to the watchers of a collection: the first and
// the last change in each scope. All fields are guarded by the collection's mutex.
//
// A change is visible to watches from its announcement on: a watch that calls Next looks here first (remind). So the
// time of waking changes neither what a watcher sees nor the order.
type wakeRound struct {
	// present is being told; pending came meanwhile and is told next. Every revision in pending is later than all in
	// present.
	present, pending map[scope]span
	// waking: a goroutine runs wake, or is about to.
	waking bool
}

// span is the first and the last of some changes.
type span struct{ first, last int64 }

// announce makes changes that reads can see visible to watches, and tells the followers. It returns true if the caller
// has to start a goroutine that calls wake.
func (c *collection) announce(events []*resources.Event) (wake bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announced = events[len(events)-1].Revision
	for _, w := range c.followers {
		if s, ok := w.wanted(events); ok {
			w.notice(s)
		}
	}
	for k, s := range c.watchers.concerned(events) {
		if c.pending == nil {
			c.pending = map[scope]span{}
		}
		if before, ok := c.pending[k]; ok {
			s.first = before.first
		}
		c.pending[k] = s
	}
	wake = !c.waking && len(c.pending) > 0
	c.waking = c.waking || wake
	return wake
}

// remind tells a watch about announced changes that it was not told yet. Called with mu.
func (c *collection) remind(w *watch) {
	for _, told := range []map[scope]span{c.present, c.pending} {
		if s, ok := told[w.scope()]; ok {
			w.learn(s) // without a signal: the watch is in Next
		}
	}
}

// wakeSlice is how many watchers are told before other goroutines get the lock, and the processors. The watchers of a
// group are told in one go, up to groupSlice: between slices they begin to send, and later events of the group would
// leave separately.
const wakeSlice, groupSlice = 64, 256

// wake tells the watchers about all announced changes. Between slices it releases mu and yields: commits, and the
// watchers that were told, go on meanwhile. Scopes with few watchers come first: the watch of a single object does not
// wait for the watches of a whole type.
//
// Watches come and go between slices. A map may be changed while it is iterated: a watch that exists all the time is
// visited once. A watch that is opened meanwhile has the announced changes in its newest.
func (c *collection) wake(yield func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := 0
	pause := func() {
		told = 0
		c.mu.Unlock()
		yield()
		c.mu.Lock()
	}
	for len(c.pending) > 0 {
		c.present, c.pending = c.pending, nil
		for _, k := range c.fewestFirst(c.present) {
			s := c.present[k]
			crowd := c.watchers.byScope[k]
			if crowd == nil {
				continue
			}
			for name, group := range crowd.groups {
				if name != "" && told > 0 && told+len(group) > groupSlice {
					pause()
				}
				for w := range group {
					w.notice(s)
					if told++; told >= groupSlice || name == "" && told >= wakeSlice {
						pause()
					}
				}
				if told >= wakeSlice {
					pause()
				}
			}
		}
	}
	c.present, c.waking = nil, false
}

func (c *collection) fewestFirst(told map[scope]span) []scope {
	scopes := make([]scope, 0, len(told))
	for k := range told {
		scopes = append(scopes, k)
	}
	slices.SortFunc(scopes, func(a, b scope) int { return c.watchers.byScope[a].len() - c.watchers.byScope[b].len() })
	return scopes
}

// wakeAfterReload makes the watchers of a collection read history, which knows whether it has all changes in between.
func (c *collection) wakeAfterReload(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.announced = revision
	c.each(func(w *watch) {
		if w.newest = max(w.newest, revision); w.cursor < revision {
			w.signal()
		}
	})
}

// wakeAll makes every watcher call Next, which then returns that the store is closed.
func (c *collection) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.each((*watch).signal)
}

// each calls f for every watch. Called with mu.
func (c *collection) each(f func(*watch)) {
	for _, w := range c.followers {
		f(w)
	}
	for _, crowd := range c.watchers.byScope {
		for _, group := range crowd.groups {
			for w := range group {
				f(w)
			}
		}
	}
}

// add registers a watch.
func (c *collection) add(w *watch) {
	if w.wake != nil {
		c.followers = append(c.followers, w)
		return
	}
	c.watchers.add(w)
}

// remove unregisters a watch.
func (c *collection) remove(w *watch) {
	if w.wake == nil {
		c.watchers.remove(w)
		return
	}
	i := slices.Index(c.followers, w)
	c.followers = slices.Delete(c.followers, i, i+1)
}

// scope is what a watcher wants to see of a collection; an empty part means all.
type scope struct{ namespace, name string }

func (w *watch) scope() scope { return scope{w.namespace, w.name} }

// watcherSet holds the watches of a collection by scope, so that a change of one object visits only the watches of its
// scopes.
type watcherSet struct{ byScope map[scope]*crowd }

// crowd holds the watches of one scope, by group.
type crowd struct {
	groups map[string]map[*watch]struct{}
	size   int
}

func (c *crowd) len() int {
	if c == nil {
		return 0
	}
	return c.size
}

func (s *watcherSet) add(w *watch) {
	if s.byScope == nil {
		s.byScope = map[scope]*crowd{}
	}
	c := s.byScope[w.scope()]
	if c == nil {
		c = &crowd{groups: map[string]map[*watch]struct{}{}}
		s.byScope[w.scope()] = c
	}
	if c.groups[w.group] == nil {
		c.groups[w.group] = map[*watch]struct{}{}
	}
	c.groups[w.group][w] = struct{}{}
	c.size++
}

// remove unregisters a watch.
func (s *watcherSet) remove(w *watch) {
	c := s.byScope[w.scope()]
	c.size--
	delete(c.groups[w.group], w)
	if len(c.groups[w.group]) == 0 {
		delete(c.groups, w.group)
	}
	if c.size == 0 {
		delete(s.byScope, w.scope())
	}
}

// scopesOf returns the scopes that contain an object. For a cluster-scoped object, two of them are the same.
func scopesOf(k resources.Key) [4]scope {
	return [4]scope{{}, {k.Namespace, k.Name}, {"", k.Name}, {k.Namespace, ""}}
}

// concerned returns the watched scopes that contain some of the changes, with the first and the last change of each.
func (s *watcherSet) concerned(events []*resources.Event) map[scope]span {
	if len(s.byScope) == 0 {
		return nil
	}
	concerned := map[scope]span{}
	for _, e := range events {
		for _, k := range scopesOf(e.Object.Key) {
			if s.byScope[k] == nil {
				continue
			}
			first := e.Revision
			if before, ok := concerned[k]; ok {
				first = before.first
			}
			concerned[k] = span{first, e.Revision}
		}
	}
	return concerned
}
