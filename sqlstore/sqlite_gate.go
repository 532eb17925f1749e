package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// readGate lets no new reads of a SQLite file begin while its write-ahead log is to be cut: SQLite begins it anew in a moment alone in which nobody
// reads, and where the next reader begins before the last one has ended there is none, for as long as they go on. Writers never wait for it: the
// committer shuts it when the log is too long, goes on, and cuts the log between batches when all who read have left. Who takes too long for that is
// ended.
//
// Invariant: a gate that is shut is opened again, by the committer, which is told as soon as nobody is in it: when the last one leaves, and gatePatience
// later at the latest. What the committer itself reads passes by (passing), or it would wait for itself.
//
// Readers of other processes know nothing of it.
type readGate struct {
	mu     sync.Mutex
	opens  chan struct{} // closed when it does; nil: it is open
	inside map[*gateHold]struct{}
	timer  *time.Timer
	empty  func() // called when nobody is in a gate that is shut
}

// gatePatience is how long the log may go on growing for those who began to read before the gate was shut. A read is of a page, and takes
// milliseconds.
const gatePatience = time.Second

// gateHold is one who reads. nil: one that no gate is for.
type gateHold struct {
	gate  *readGate
	end   context.CancelFunc
	ended atomic.Bool
}

// errHeld is why a read was ended.
var errHeld = errors.New("the read took too long while the database's log had to be cut")

type passingKey struct{}

// passing is the context of what is read on the goroutine of the committer.
func passing() context.Context { return context.WithValue(context.Background(), passingKey{}, true) }

func newReadGate() *readGate {
	return &readGate{inside: map[*gateHold]struct{}{}, empty: func() {}}
}

// pass reads when the gate is open. What was ended for the gate is read once more, if again says so: who does not get what it wants then either, holds
// all others up.
func (g *readGate) pass(ctx, bounded context.Context, again func() bool, read func(held context.Context) error) error {
	for first := true; ; first = false {
		held, hold, err := g.enter(ctx, bounded)
		if err != nil {
			return err
		}
		if err = hold.leave(read(held)); !errors.Is(err, errHeld) || !first || !again() {
			return err
		}
	}
}

// enter waits until the gate is open, or bounded ends, which is what remains of the caller's ctx. The context that it returns ends when the read
// has to.
func (g *readGate) enter(ctx, bounded context.Context) (context.Context, *gateHold, error) {
	if g == nil || ctx.Value(passingKey{}) != nil {
		return bounded, nil, nil
	}
	for {
		g.mu.Lock()
		opens := g.opens
		if opens == nil {
			held, end := context.WithCancel(bounded)
			h := &gateHold{gate: g, end: end}
			g.inside[h] = struct{}{}
			g.mu.Unlock()
			return held, h, nil
		}
		g.mu.Unlock()
		select {
		case <-opens:
		case <-bounded.Done():
			return nil, nil, bounded.Err()
		}
	}
}

// leave is called when the read has ended, with its error, and says why it has.
func (h *gateHold) leave(err error) error {
	if h == nil {
		return err
	}
	h.end()
	g := h.gate
	g.mu.Lock()
	_, there := g.inside[h]
	delete(g.inside, h)
	last := there && g.opens != nil && len(g.inside) == 0
	g.mu.Unlock()
	if last {
		g.empty()
	}
	if err != nil && h.ended.Load() {
		return fmt.Errorf("%w: %w", resources.ErrUnavailable, errHeld)
	}
	return err
}

// shut lets nobody in any more, and tells whether nobody is in.
func (g *readGate) shut() (empty bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opens == nil {
		g.opens = make(chan struct{})
		if len(g.inside) > 0 {
			g.timer = time.AfterFunc(gatePatience, g.clear)
		}
	}
	return len(g.inside) == 0
}

// clear ends who is in.
func (g *readGate) clear() {
	g.mu.Lock()
	if g.opens == nil {
		g.mu.Unlock()
		return
	}
	for h := range g.inside {
		h.ended.Store(true)
		h.end()
	}
	clear(g.inside) // some may hang elsewhere than in the database
	g.mu.Unlock()
	g.empty()
}

// open lets all in.
func (g *readGate) open() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opens == nil {
		return
	}
	close(g.opens)
	g.opens = nil
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
}
