package sqlstore

import (
	"context"

	"github.com/rowlock/rowlock/resources"
)

// Watch opens a cursor; see resources.Watcher.
func (s *Store) Watch(ctx context.Context, opts resources.WatchOptions) (resources.Watch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := s.collection(opts.Resource)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closing.Load() {
		return nil, resources.ErrClosed
	}
	w := &watch{store: s, collection: c, namespace: opts.Namespace, name: opts.Name,
		ready: make(chan struct{}, 1), wake: opts.Wake, cursor: opts.After}
	// What is not visible yet will be brought to wake.
	if w.newest = min(c.tree.Load().last, s.revisions.current.Load()); opts.After < w.newest {
		// A type that did not change since opts.After has nothing to deliver, however much of history is gone.
		if floor := s.floor.Load(); opts.After < floor {
			return nil, &resources.ExpiredError{Requested: opts.After, Oldest: floor}
		}
		w.signal()
	}
	c.watchers.add(w)
	s.metrics.watchers.Add(1)
	return w, nil
}

// watch is a cursor into the log of one collection. All but the constants is guarded by the collection's mutex.
type watch struct {
	store           *Store
	collection      *collection
	namespace, name string
	ready           chan struct{}
	wake            func() // stands for ready when it is set

	// cursor is how far the watcher has come: every event up to it that it wants was returned.
	cursor int64
	// newest is the last visible event that it may want. When the cursor is there, the watcher has caught up; then it
	// passes over the log, and over history, without reading them.
	newest int64
	closed bool
}

// historyPage is how many changes are read from the database at a time.
const historyPage = 256

// Next returns the next events; see resources.Watch.
func (w *watch) Next(ctx context.Context, max int) ([]*resources.Event, int64, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		events, revision, historyEnd, err := w.fromLog(max)
		if err != nil || historyEnd == 0 {
			return events, revision, err
		}
		page, err := w.store.db.history(ctx, historyQuery{resource: w.collection.resource, namespace: w.namespace,
			name: w.name, after: revision, upTo: historyEnd, limit: min(max, historyPage)})
		if err != nil {
			return nil, 0, err
		}
		w.collection.mu.Lock()
		w.advance(page.upTo)
		w.collection.mu.Unlock()
		if len(page.events) > 0 {
			return page.events, page.upTo, nil
		}
	}
}

// fromLog returns the next events when the log in memory has them. When it does not reach back to the cursor, it
// returns where history is to be read from, and up to where (else 0).
func (w *watch) fromLog(max int) (events []*resources.Event, revision, historyEnd int64, err error) {
	c := w.collection
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.closed || w.store.closing.Load() {
		return nil, 0, 0, resources.ErrClosed
	}
	// What a batch that is being applied has put into the log already is not visible before the revision is.
	visible := w.store.revisions.current.Load()
	if w.cursor >= w.newest {
		if c.tree.Load().last > c.woken {
			visible = min(visible, c.woken) // the rest was not brought to this watcher yet
		}
		w.advance(visible)
		return nil, w.cursor, 0, nil
	}
	log, complete := c.after(w.cursor)
	if !complete {
		return nil, w.cursor, min(c.logStart, w.newest), nil
	}
	for _, e := range log {
		if e.Revision > visible {
			break
		}
		if !w.wants(e) {
			continue
		}
		if len(events) == max {
			w.advance(events[max-1].Revision)
			return events, w.cursor, 0, nil
		}
		events = append(events, e)
	}
	w.advance(visible)
	return events, w.cursor, 0, nil
}

// advance moves the cursor.
func (w *watch) advance(to int64) {
	w.cursor = max(w.cursor, to)
	if w.cursor < w.newest {
		w.signal()
	}
}

func (w *watch) wants(e *resources.Event) bool {
	return (w.namespace == "" || w.namespace == e.Object.Namespace) && (w.name == "" || w.name == e.Object.Name)
}

// notice tells the watcher of events that became visible: the first and the last that it may want.
func (w *watch) notice(first, last int64) {
	if last <= w.cursor {
		return
	}
	if w.cursor >= w.newest {
		w.cursor = max(w.cursor, first-1) // between is nothing that it wants
		w.signal()
	}
	w.newest = last
}

func (w *watch) signal() {
	if w.wake != nil {
		w.wake()
		return
	}
	select {
	case w.ready <- struct{}{}:
	default: // a value is waiting already
	}
}

// Ready receives a value whenever Next may have more to return.
func (w *watch) Ready() <-chan struct{} { return w.ready }

// Close releases the cursor.
func (w *watch) Close() {
	w.collection.mu.Lock()
	defer w.collection.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.collection.watchers.remove(w)
		w.store.metrics.watchers.Add(-1)
	}
}

// wake tells the watchers of a collection about changes that have become visible, each of them once.
func (c *collection) wake(events []*resources.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = events[len(events)-1].Revision
	if len(c.watchers.byScope) == 0 {
		return
	}
	type span struct{ first, last int64 }
	changed := map[scope]span{}
	for _, e := range events {
		for _, k := range scopesOf(e.Object.Key) {
			if c.watchers.byScope[k] == nil {
				continue
			}
			first := e.Revision
			if s, ok := changed[k]; ok {
				first = s.first
			}
			changed[k] = span{first, e.Revision}
		}
	}
	for k, s := range changed {
		for w := range c.watchers.byScope[k] {
			w.notice(s.first, s.last)
		}
	}
}

// wakeAfterReload makes the watchers of a collection look at history, which knows how much of what lies between is there.
func (c *collection) wakeAfterReload(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = revision
	for _, set := range c.watchers.byScope {
		for w := range set {
			if w.newest = max(w.newest, revision); w.cursor < revision {
				w.signal()
			}
		}
	}
}

// scope is what a watcher wants to see of a collection; an empty part means all.
type scope struct{ namespace, name string }

// watcherSet holds the watchers of a collection by what they want to see, so that a change of one object looks at those
// alone that want it.
type watcherSet struct{ byScope map[scope]map[*watch]struct{} }

func (s *watcherSet) add(w *watch) {
	if s.byScope == nil {
		s.byScope = map[scope]map[*watch]struct{}{}
	}
	k := scope{w.namespace, w.name}
	if s.byScope[k] == nil {
		s.byScope[k] = map[*watch]struct{}{}
	}
	s.byScope[k][w] = struct{}{}
}

func (s *watcherSet) remove(w *watch) {
	k := scope{w.namespace, w.name}
	delete(s.byScope[k], w)
	if len(s.byScope[k]) == 0 {
		delete(s.byScope, k)
	}
}

// scopesOf returns the scopes that an object is in. For a cluster-scoped one, two of them are the same.
func scopesOf(k resources.Key) [4]scope {
	return [4]scope{{}, {k.Namespace, k.Name}, {"", k.Name}, {k.Namespace, ""}}
}

// wakeAll makes every watcher call Next, to learn that the store is closed.
func (c *collection) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, set := range c.watchers.byScope {
		for w := range set {
			w.signal()
		}
	}
}
