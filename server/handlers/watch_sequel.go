package handlers

import (
	"sync"
	"time"

	"github.com/rowlock/rowlock/server/h2"
)

// Once a watch has started, it needs nothing from the middleware of its request, and it waits most of the time. Over HTTP/2 it goes on in steps,
// each of which occupies a goroutine only while it runs: a watch at rest is a few structs. Its Later has what the middleware does at its end.

// sequel returns the means to outlive the handler, or nil.
func (w *watchStream) sequel() *h2.Continued {
	if w.after, _ = w.early.Value(laterKey{}).(*Later); w.after == nil {
		return nil
	}
	return h2.Continue(w.q.w, watchSequel{w}, w.h.WatchStall)
}

// wake returns the function that triggers a step, or nil if the watch has its own goroutine.
func (w *watchStream) wake() func() {
	if w.later == nil {
		return nil
	}
	return w.later.Wake
}

// goOn lets the watch outlive its handler, if it can.
func (w *watchStream) goOn() bool {
	if w.later == nil {
		return false
	}
	w.goesOn, w.after.goesOn = true, true
	w.h.going.add(w)
	w.later.Go()
	return true
}

// watchSequel is a watch that outlives its handler.
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

// Waits implements h2.Sequel: from now on the client has WatchStall to take the frames.
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

// settle is called when the handler has returned. It releases what only the request needed.
func (w *watchStream) settle() {
	w.cancel()
	w.cancel = nil
	q := *w.q
	q.w, q.r, q.sent, q.audit = w.later.Writer(), nil, nil, nil
	if q.ctx = w.early; q.served.Requires == nil { // rendering calls no webhook
		q.ctx = w.later
	}
	w.q, w.early, w.to = &q, nil, &httpFrames{w: q.w, compress: w.compresses, direct: !w.compresses}
	w.stall.end = func() { cutWrites(q.w) }
	w.alarm = time.AfterFunc(time.Until(w.alarmAt), w.later.Wake)
}

// going are the watches that have outlived their handlers.
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

// wake triggers a step of the watches that meet a condition.
func (g *going) wake(those func(*watchStream) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range g.all {
		if those(w) {
			w.later.Wake()
		}
	}
}

// Drained makes watches without handlers notice that Config.Draining is closed.
func (h *Handlers) Drained() {
	h.going.wake(func(*watchStream) bool { return true })
}

// versionsEnded makes watches notice that their version is no longer served as before.
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
