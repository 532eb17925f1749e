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
	w := &watch{store: s, collection: c, namespace: opts.Namespace, name: opts.Name, group: opts.Group,
		wake: opts.Wake, notify: opts.Notify, aside: opts.Aside, cursor: opts.After}
	if w.notify == nil && w.wake == nil {
		w.ready = make(chan struct{}, 1)
	}
	// Changes that are not visible yet will be announced.
	if w.newest = min(c.tree.Load().last, s.revisions.current.Load()); opts.After < w.newest {
		// A type that did not change since opts.After has nothing to deliver, however much of history is gone.
		if floor := s.floor.Load(); opts.After < floor {
			return nil, &resources.ExpiredError{Requested: opts.After, Oldest: floor}
		}
		w.signal()
	}
	c.add(w)
	s.metrics.watchers.Add(1)
	return w, nil
}

// watch is a cursor into the log of one collection. All but the constants is guarded by the collection's mutex.
type watch struct {
	store           *Store
	collection      *collection
	namespace, name string
	group           string
	ready           chan struct{}
	wake            func() // called instead of sending to ready, if set; so is notify
	notify, aside   func()

	// cursor is the watcher's position: Next has returned every wanted event up to it.
	cursor int64
	// newest is the last visible event that the watcher may want. A watcher whose cursor is there has caught up; its
	// cursor then passes over the log, and over history, without reading them.
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
		if w.aside != nil {
			w.aside()
		}
		page, err := w.store.catchUps.history(ctx, historyQuery{resource: w.collection.resource, namespace: w.namespace,
			name: w.name, after: revision, upTo: historyEnd, limit: max})
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

// fromLog returns the next events if the log in memory has them. If the log does not reach back to the cursor, it
// returns the range of history to read: after revision, and up to historyEnd at most (else 0).
func (w *watch) fromLog(max int) (events []*resources.Event, revision, historyEnd int64, err error) {
	c := w.collection
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.closed || w.store.closing.Load() {
		return nil, 0, 0, resources.ErrClosed
	}
	// A batch that is being applied is in the log already, but not visible until revisions.current reaches it.
	visible := w.store.revisions.current.Load()
	c.remind(w)
	last := c.tree.Load().last
	if seen := min(last, visible); seen > c.announced && w.wake == nil {
		w.learn(span{c.announced + 1, seen}) // reads can see it, and it is about to be announced
	}
	if w.cursor >= w.newest {
		if w.wake != nil && last > c.announced {
			visible = min(visible, c.announced) // the rest was not announced yet
		}
		w.advance(visible)
		return nil, w.cursor, 0, nil
	}
	log, complete := c.after(w.cursor)
	if !complete {
		// Up to the visible end and not to the log's start: the log moves on, and there would be a page for each step.
		return nil, w.cursor, visible, nil
	}
	for _, e := range log {
		if e.Revision > visible {
			break
		}
		if !w.wants(e) {
			continue
		}
		if unreadable := e.Unreadable(); unreadable != nil && len(events) == 0 {
			return nil, 0, 0, unreadable
		} else if unreadable != nil || len(events) == max {
			w.advance(events[len(events)-1].Revision)
			return events, w.cursor, 0, nil
		}
		events = append(events, e)
	}
	w.advance(visible)
	return events, w.cursor, 0, nil
}

// advance moves the cursor forward.
func (w *watch) advance(to int64) {
	w.cursor = max(w.cursor, to)
	if w.cursor < w.newest {
		w.signal()
	}
}

func (w *watch) wants(e *resources.Event) bool {
	return (w.namespace == "" || w.namespace == e.Object.Namespace) && (w.name == "" || w.name == e.Object.Name)
}

// wanted returns the first and the last of some events that the watch wants, if there are any.
func (w *watch) wanted(events []*resources.Event) (s span, ok bool) {
	for _, e := range events {
		if w.wants(e) {
			if !ok {
				s.first, ok = e.Revision, true
			}
			s.last = e.Revision
		}
	}
	return s, ok
}

// notice tells the watcher of events that became visible, and wakes it if it had caught up.
func (w *watch) notice(s span) {
	if w.learn(s) {
		w.signal()
	}
}

// learn records that there are events which the watcher may want. Events come in order, some of them twice. It returns
// true if the watcher had caught up before.
func (w *watch) learn(s span) bool {
	if s.last <= w.cursor {
		return false
	}
	idle := w.cursor >= w.newest
	if idle {
		w.cursor = max(w.cursor, s.first-1) // the watcher wants no event in between
	}
	w.newest = max(w.newest, s.last)
	return idle
}

func (w *watch) signal() {
	if w.wake != nil {
		w.wake()
		return
	}
	if w.notify != nil {
		w.notify()
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
		w.collection.remove(w)
		w.store.metrics.watchers.Add(-1)
	}
}
