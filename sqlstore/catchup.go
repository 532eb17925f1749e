package sqlstore

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/tidwall/btree"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

const (
	// segmentsMax is how many bytes of history are kept for watchers that catch up.
	segmentsMax = 16 << 20
	// segmentsAge is for how long a segment is kept after it was last read.
	segmentsAge = time.Minute
	// catchUpReads is how many connections read history for watchers. It leaves some connections for other reads.
	catchUpReads = 2
	// flightReach bounds how many revisions before a watcher's position a read may begin that the watcher waits for. So
	// watchers at nearby positions come to read the same pages.
	flightReach = historyPage
)

// catchUps reads history for the watches that are behind the log in memory. Watches that need the same page share it,
// with its events and their encodings, in two ways: a watch waits for a page that is being read, and a page is kept for
// a while after it was read. Pages are bounded in bytes and reads in connections, so that many watches that have fallen
// behind together cost as much as one watch, and watches at scattered positions of history wait in a queue.
//
// A segment stays valid for ever, since history only grows at its end and is pruned at its beginning. The exception is
// a restored database: then clear drops everything, and the next read tells a watch that is behind.
//
// A page may be delivered after it was pruned, like changes in the log in memory. It ends where the next page begins,
// so there is no gap: the next page exists, or its read fails with ExpiredError.
type catchUps struct {
	read  func(context.Context, historyQuery) (historyAnswer, error)
	clock clock.Clock
	max   int64
	slots chan struct{} // has a value for every read under way
	noted func()        // called when a page was kept
	ctx   context.Context
	end   context.CancelFunc
	work  sync.WaitGroup

	mu      sync.Mutex
	scopes  map[historyScope]*btree.Map[int64, *list.Element] // of *segment, by after
	order   list.List                                         // of *segment, the most recently used in front
	used    int64                                             // bytes
	flights map[historyScope]map[int64]*flight                // by after
	epoch   int                                               // raised by clear
}

// historyScope is the set of objects whose changes a query of history returns.
type historyScope struct{ resource, namespace, name string }

func (q *historyQuery) scope() historyScope { return historyScope{q.resource, q.namespace, q.name} }

// segment is a page of history: every change of a scope with after < revision <= upTo.
type segment struct {
	historyAnswer
	scope historyScope
	after int64
	size  int64
	used  time.Time
}

// flight is a page that is being read.
type flight struct {
	query   historyQuery
	answer  historyAnswer
	err     error
	done    chan struct{}
	epoch   int
	ctx     context.Context
	cancel  context.CancelFunc
	waiters int // guarded by catchUps.mu
}

func newCatchUps(c clock.Clock, noted func(), read func(context.Context, historyQuery) (historyAnswer, error)) *catchUps {
	u := &catchUps{read: read, clock: c, noted: noted, max: segmentsMax, slots: make(chan struct{}, catchUpReads),
		scopes: map[historyScope]*btree.Map[int64, *list.Element]{}, flights: map[historyScope]map[int64]*flight{}}
	u.ctx, u.end = context.WithCancel(context.Background())
	return u
}

// history returns changes as database.history does, at least one or up to q.upTo; it may return fewer than there are.
// It waits for a connection as long as the caller does. Errors: those of database.history, resources.ErrClosed.
func (u *catchUps) history(ctx context.Context, q historyQuery) (historyAnswer, error) {
	for reach := int64(flightReach); ; reach = 0 {
		u.mu.Lock()
		if u.ctx.Err() != nil {
			u.mu.Unlock()
			return historyAnswer{}, resources.ErrClosed
		}
		if s := u.find(&q); s != nil {
			u.mu.Unlock()
			return s.from(q.after, q.limit), nil
		}
		f := u.join(&q, reach)
		u.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			u.leave(f)
			return historyAnswer{}, ctx.Err()
		}
		switch {
		case f.err == nil && f.answer.upTo > q.after:
			return f.answer.from(q.after, q.limit), nil
		case f.err != nil && (f.query.after == q.after || u.ctx.Err() != nil):
			return historyAnswer{}, f.err
		}
		// The flight began at an earlier position: its end or its error says nothing about this one. The next read begins here.
	}
}

// from returns the part of an answer after a revision, with at most limit changes.
func (a historyAnswer) from(after int64, limit int) historyAnswer {
	first := 0
	for first < len(a.events) && a.events[first].Revision <= after {
		first++
	}
	a.events = a.events[first:]
	if len(a.events) > limit {
		a.events = a.events[:limit:limit]
		a.upTo = a.events[limit-1].Revision
	}
	return a
}

// find returns a segment that has the changes after a position. Called with mu.
func (u *catchUps) find(q *historyQuery) (found *segment) {
	segments, ok := u.scopes[q.scope()]
	if !ok {
		return nil
	}
	segments.Descend(q.after, func(_ int64, e *list.Element) bool {
		if s := e.Value.(*segment); s.upTo > q.after {
			found, s.used = s, u.clock.Now()
			u.order.MoveToFront(e)
		}
		return false
	})
	return found
}

// join returns a read that begins at a position, or less than reach before it; if there is none, it starts one. Called
// with mu.
func (u *catchUps) join(q *historyQuery, reach int64) *flight {
	scope := q.scope()
	under, ok := u.flights[scope]
	if !ok {
		under = map[int64]*flight{}
		u.flights[scope] = under
	}
	f := under[q.after]
	for after, near := range under {
		if f == nil && after < q.after && q.after-after < reach {
			f = near
		}
	}
	if f == nil {
		f = &flight{query: *q, done: make(chan struct{}), epoch: u.epoch}
		f.query.limit = historyPage
		f.ctx, f.cancel = context.WithCancel(u.ctx)
		under[q.after] = f
		u.work.Go(func() { u.fly(f) })
	}
	f.waiters++
	return f
}

// leave is called by a watch that no longer waits for a read. A read without a waiter is canceled.
func (u *catchUps) leave(f *flight) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		u.land(f)
		f.cancel()
	}
}

// land makes sure that no further watch joins a read. Called with mu.
func (u *catchUps) land(f *flight) {
	scope := f.query.scope()
	if under := u.flights[scope]; under[f.query.after] == f {
		if delete(under, f.query.after); len(under) == 0 {
			delete(u.flights, scope)
		}
	}
}

func (u *catchUps) fly(f *flight) {
	defer f.cancel()
	select {
	case u.slots <- struct{}{}:
		f.answer, f.err = u.read(f.ctx, f.query)
		<-u.slots
	case <-f.ctx.Done():
		f.err = f.ctx.Err()
	}
	if u.ctx.Err() != nil {
		f.err = resources.ErrClosed
	}
	u.mu.Lock()
	u.land(f)
	kept := f.err == nil && f.epoch == u.epoch
	if kept {
		u.keep(f)
	}
	u.mu.Unlock()
	close(f.done)
	if kept {
		u.noted()
	}
}

// keep stores a page that was read. Called with mu.
func (u *catchUps) keep(f *flight) {
	s := &segment{historyAnswer: f.answer, scope: f.query.scope(), after: f.query.after, size: 1 << 10, used: u.clock.Now()}
	for _, e := range s.events {
		s.size += eventSize(e) + e.Object.Size() // nothing else holds the object
		if sharesPrev(e, s.after) {
			s.size -= e.Prev.Size()
		}
	}
	segments, ok := u.scopes[s.scope]
	if !ok {
		segments = &btree.Map[int64, *list.Element]{}
		u.scopes[s.scope] = segments
	}
	if before, ok := segments.Get(s.after); ok {
		u.drop(before) // it ended at the position of this read
		u.scopes[s.scope] = segments
	}
	segments.Set(s.after, u.order.PushFront(s))
	u.used += s.size
	for u.used > u.max {
		u.drop(u.order.Back())
	}
}

// drop forgets a segment. Called with mu.
func (u *catchUps) drop(e *list.Element) {
	s := u.order.Remove(e).(*segment)
	u.used -= s.size
	segments := u.scopes[s.scope]
	if segments.Delete(s.after); segments.Len() == 0 {
		delete(u.scopes, s.scope)
	}
}

// expire drops segments that were not read for segmentsAge, and returns when to look again (zero: none is left).
func (u *catchUps) expire(now time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return dropUnused(&u.order, now, segmentsAge, func(kept any) time.Time { return kept.(*segment).used }, u.drop)
}

// clear drops all segments, and detaches the reads under way.
func (u *catchUps) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.epoch++
	for e := u.order.Back(); e != nil; e = u.order.Back() {
		u.drop(e)
	}
	clear(u.flights)
}

// stop ends all reads and waits for them. No read begins after it.
func (u *catchUps) stop() {
	u.mu.Lock()
	u.end()
	u.mu.Unlock()
	u.work.Wait()
}
