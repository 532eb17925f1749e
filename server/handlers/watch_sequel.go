package handlers

import (
	"sync"
	"time"

	"github.com/rowlock/rowlock/server/h2"
)

// A watch that has begun needs nothing of what the request has passed through, and waits most of its time. Over HTTP/2 it goes on in
// steps, which take a goroutine as long as they are made: at rest it is a few structs. What the request has to be told of its end is in
// its Later.

// sequel is by what the watch can go on without its handler, or nil.
func (w *watchStream) sequel() *h2.Continued {
	if w.after, _ = w.early.Value(laterKey{}).(*Later); w.after == nil {
		return nil
	}
	return h2.Continue(w.q.w, watchSequel{w}, w.h.WatchStall)
}

// wake is what has a step made, or nil where the watch is a goroutine's.
func (w *watchStream) wake() func() {
	if w.later == nil {
		return nil
	}
	return w.later.Wake
}

// goOn has the watch go on without its handler, if it can.
func (w *watchStream) goOn() bool {
	if w.later == nil {
		return false
	}
	w.goesOn, w.after.goesOn = true, true
	w.h.going.add(w)
	w.later.Go()
	return true
}

// watchSequel is a watch that goes on.
type watchSequel struct{ *watchStream }

// Step implements h2.Sequel.
func (s watchSequel) Step() (over bool) {
	w := s.watchStream
	if w.alarm == nil {
		w.settle()
		if w.after.broken {
			return true
		}
	}
	return w.step()
}

// Waits implements h2.Sequel: from now on the client has WatchStall to take what it is sent.
func (s watchSequel) Waits() { s.stall.begin() }

// End implements h2.Sequel.
func (s watchSequel) End(cause any) {
	w := s.watchStream
	defer w.after.over(cause)
	w.h.going.remove(w)
	if w.alarm != nil {
		w.alarm.Stop()
	}
	w.release()
}

// settle is called when the handler has returned. It lets go of what the request alone needed.
func (w *watchStream) settle() {
	w.cancel()
	w.cancel = nil
	q := *w.q
	q.w, q.r, q.sent, q.audit = w.later.Writer(), nil, nil, nil
	if q.ctx = w.early; q.served.Requires == nil { // nobody is asked for what it is shown as
		q.ctx = w.later
	}
	w.q, w.early, w.to = &q, nil, &httpFrames{w: q.w, compress: w.compresses, direct: !w.compresses}
	w.stall.end = func() { cutWrites(q.w) }
	w.alarm = time.AfterFunc(time.Until(w.alarmAt), w.later.Wake)
}

// going are the watches that go on without their handlers.
type going struct {
	mu  sync.Mutex
	all map[*watchStream]struct{}
}

func (g *going) add(w *watchStream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[*watchStream]struct{}{}
	}
	g.all[w] = struct{}{}
}

func (g *going) remove(w *watchStream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, w)
}

// wake has those make a step that meet a condition.
func (g *going) wake(those func(*watchStream) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range g.all {
		if those(w) {
			w.later.Wake()
		}
	}
}

// Drained has the watches that go on without their handlers see that Config.Draining is closed.
func (h *Handlers) Drained() {
	h.going.wake(func(*watchStream) bool { return true })
}

// versionsEnded has those see it whose version is no longer served as it was.
func (h *Handlers) versionsEnded() {
	h.going.wake(func(w *watchStream) bool { return closed(w.life) })
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
