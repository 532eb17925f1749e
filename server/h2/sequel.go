package h2

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Sequel continues a response in steps when its handler has returned: a response that waits for something occupies no goroutine, and no stack.
//
// One goroutine makes the steps of all streams of a connection in sequence, and their output is sent together. A step that waits for its client's
// window, or says that it may take long (Continued.Aside), continues apart from them: the others do not wait for it.
type Sequel interface {
	// Step does everything that is due, and reports whether the response is complete. It is called when the handler has returned, after each Wake
	// since the last step began, and when the stream has ended and the context is done. Steps do not overlap.
	Step() (over bool)
	// Waits is called during a step, each time before it waits for the client.
	Waits()
	// End is called once: after the last step, or with the value of the panic as cause if a step, or the handler after Go, panicked. If End panics,
	// the stream is reset.
	End(cause any)
}

// Continued is a response that a Sequel continues.
type Continued struct {
	c      *conn
	st     *stream
	sequel Sequel
	stall  time.Duration
	closed atomic.Bool // as st.closed

	// Guarded by conn.mu.
	begun  bool // the handler has returned
	queued bool // is in conn.woken
	steps  bool // a step is being made
	again  bool // another step is due after this one, or after the handler
	late   bool // is in conn.delayed
	over   bool
}

// Continue returns the means for s to continue a response after its handler; the handler must also call Go. It returns nil if w is not, and does
// not wrap, a writer of this package. A client that reads nothing for as long as stall loses its connection.
func Continue(w http.ResponseWriter, s Sequel, stall time.Duration) *Continued {
	for {
		switch inner := w.(type) {
		case *response:
			return &Continued{c: inner.st.c, st: inner.st, sequel: s, stall: stall}
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}

// Go makes the response outlive the handler, which must have sent the header, and must not use the request afterwards. No trailers follow.
func (n *Continued) Go() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stall, n.st.next = n.stall, n
	n.closed.Store(n.st.closed)
}

// Writer is the writer of the response.
func (n *Continued) Writer() http.ResponseWriter { return &n.st.answer }

// A Continued is also the context of its stream, without the values for the request: it is done when the stream has ended. Steps check that often,
// and for many streams: the flag is in memory that they use anyway.
var _ context.Context = (*Continued)(nil)

// Deadline implements context.Context.
func (n *Continued) Deadline() (time.Time, bool) { return n.st.ctx.Deadline() }

// Done implements context.Context.
func (n *Continued) Done() <-chan struct{} { return n.st.ctx.Done() }

// Value implements context.Context.
func (n *Continued) Value(key any) any { return n.st.ctx.Value(key) }

// Err implements context.Context.
func (n *Continued) Err() error {
	if !n.closed.Load() {
		return nil
	}
	<-n.st.ctx.Done() // is about to be closed
	return n.st.ctx.Err()
}

// Wake triggers a step. It does not block.
func (n *Continued) Wake() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake(n)
}

// WakeIn triggers a step after that time or a little earlier, together with others of the connection.
func (n *Continued) WakeIn(d time.Duration) {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.late {
		return
	}
	n.late = true
	if c.delayed = append(c.delayed, n); len(c.delayed) > 1 {
		return
	}
	if c.delay == nil {
		c.delay = time.AfterFunc(d, c.wakeDelayed)
	} else {
		c.delay.Reset(d)
	}
}

func (c *conn) wakeDelayed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.delayed {
		n.late = false
		c.wake(n)
	}
	clear(c.delayed)
	c.delayed = c.delayed[:0]
}

// Aside lets the steps of others continue while this one may take long.
func (n *Continued) Aside() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside(n)
}

// begin is called when the handler has returned. It releases what only the request needed.
func (n *Continued) begin() {
	st := n.st
	st.r, st.serve, st.answer.header = nil, nil, nil
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	n.begun = true
	st.c.wake(n)
}

// step makes a step, and ends the response after the last one.
func (n *Continued) step() (over bool) {
	panicked := true
	defer func() {
		if panicked {
			over = true
			n.fail(recover())
		}
	}()
	if over = n.sequel.Step(); over {
		n.end(nil)
		n.st.answer.finish()
		n.st.done()
	}
	panicked = false
	return over
}

// fail ends a response whose handler or step has panicked.
func (n *Continued) fail(cause any) {
	defer n.st.done()
	n.st.panicked(cause)
	n.end(cause)
}

func (n *Continued) end(cause any) {
	c := n.c
	c.mu.Lock()
	ended := n.over
	n.over = true
	c.mu.Unlock()
	if ended {
		return
	}
	defer func() {
		if p := recover(); p != nil { // a panic must not end the process
			n.st.panicked(p)
		}
	}()
	n.sequel.End(cause)
}

// wake triggers a step of a stream. The caller holds mu.
func (c *conn) wake(n *Continued) {
	switch {
	case n.over || n.queued:
	case !n.begun || n.steps:
		n.again = true
	default:
		n.queued = true
		c.woken = append(c.woken, n)
		if !c.stepping {
			c.stepping = true
			c.srv.work.run((*steps)(c))
		}
	}
}

// steps is a connection whose streams have steps to make.
type steps conn

// run makes steps until there are none, or another goroutine takes over because a step has gone aside.
func (s *steps) run() {
	c := (*conn)(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.woken) > 0 {
		n := c.woken[0]
		c.woken[0] = nil
		if c.woken = c.woken[1:]; len(c.woken) == 0 {
			c.woken = nil
		}
		n.queued, n.steps, n.again, c.step = false, true, false, n
		c.mu.Unlock()
		over := n.step()
		c.mu.Lock()
		n.steps = false
		if n.again && !over {
			c.wake(n)
		}
		if c.step != n {
			return
		}
	}
	c.step, c.stepping = nil, false
	if !c.writing && len(c.out) > 0 {
		c.writing = true
		c.hurryWithin(c.stall)
		c.release()
	}
}

// gathers tells whether the output of a stream is sent with that of the steps that follow. The caller holds mu.
func (c *conn) gathers(st *stream) bool {
	return st.next != nil && c.step == st.next && len(c.woken) > 0
}

// aside starts another goroutine for the other steps, if this one would make them. The caller holds mu.
func (c *conn) aside(n *Continued) {
	if n != c.step || n == nil {
		return
	}
	c.step = nil
	if c.stepping = len(c.woken) > 0 || len(c.out) > 0; c.stepping {
		c.srv.work.run((*steps)(c))
	}
}

// stalls is called before a stream waits for its client, or for another stream. The caller holds mu; stalls releases it meanwhile.
func (st *stream) stalls() {
	if n := st.next; n != nil && n.begun {
		st.c.mu.Unlock()
		n.sequel.Waits()
		st.c.mu.Lock()
	}
}
