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

// readGate holds back new reads of a SQLite file while its write-ahead log is to be cut: SQLite restarts the log only
// at a moment when no connection reads, and overlapping reads never leave such a moment. Writers never wait for it: the
// committer shuts the gate when the log is too long, goes on, and cuts the log between batches when all reads have
// ended. Reads that take too long are ended.
//
// Invariant: a gate that is shut is opened again, by the committer, which is told as soon as no read is inside: when
// the last one leaves, and gatePatience later at the latest. The committer's own reads pass the gate (passing);
// otherwise the committer would wait for itself.
//
// Readers of other processes do not know the gate.
type readGate struct {
	mu     sync.Mutex
	opens  chan struct{} // closed when the gate opens; nil: it is open
	inside map[*gateHold]struct{}
	timer  *time.Timer
	empty  func() // called when no read is inside a gate that is shut
}

// gatePatience is how long the log may go on growing for reads that began before the gate was shut. A read is of a
// page, and takes milliseconds.
const gatePatience = time.Second

// gateHold is a read inside the gate. nil: a read that needs no gate.
type gateHold struct {
	gate  *readGate
	end   context.CancelFunc
	ended atomic.Bool
}

// errHeld is why a read was ended.
var errHeld = errors.New("the read took too long while the database's log had to be cut")

type passingKey struct{}

// passing returns the context of reads on the committer's goroutine.
func passing() context.Context { return context.WithValue(context.Background(), passingKey{}, true) }

func newReadGate() *readGate {
	return &readGate{inside: map[*gateHold]struct{}{}, empty: func() {}}
}

// pass runs read when the gate is open. If the gate ended the read, it runs once more if again returns true; a read
// that takes too long twice would delay all others.
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

// enter waits until the gate is open, or until bounded ends, which is the rest of the caller's ctx. The returned
// context ends when the read has to end.
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

// leave is called when the read has ended, with its error. It returns errHeld if the gate ended the read.
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

// shut closes the gate for new reads, and reports whether no read is inside.
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

// clear ends the reads that are inside.
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
	clear(g.inside) // some may hang outside the database
	g.mu.Unlock()
	g.empty()
}

// open lets all waiting reads in.
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
