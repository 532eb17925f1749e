package h2

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Sequel goes on with an answer when its handler has returned, in steps: an answer that waits for something takes no goroutine, and
// the stack of none.
//
// The steps of all streams of a connection are made one after the other, by one goroutine, and what they send leaves together. A step
// that waits for its client's window, or says that it takes its time (Continued.Aside), goes on by itself: others do not wait for it.
type Sequel interface {
	// Step does what there is to do, and reports whether the answer is complete. It is called when the handler has returned, after
	// each Wake that came since the last step began, and when the stream is over, when the context is done. There is one step at a time.
	Step() (over bool)
	// Waits is called in a step, each time it is about to wait for the client.
	Waits()
	// End is called once, after the last step, or in it if that panicked, or if the handler did after Continue; cause says why. If it
	// panics itself, its stream is reset.
	End(cause any)
}

// Continued is an answer that a Sequel goes on with.
type Continued struct {
	c      *conn
	st     *stream
	sequel Sequel
	stall  time.Duration
	closed atomic.Bool // the stream

	// Guarded by conn.mu.
	begun  bool // the handler has returned
	queued bool // it is in conn.woken
	steps  bool // a step is being made
	again  bool // there is more to do after this one, or after the handler
	late   bool // it is in conn.delayed
	over   bool
}

// Continue returns by what s can go on with an answer when its handler has returned, once that has called Go. It returns nil where w is no
// writer of this package's, and wraps none. A client that takes nothing of what is sent to it for as long as stall loses its connection.
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

// Go has the answer go on when the handler returns, which must have sent the header, and has nothing to do with the request afterwards. No
// trailers follow.
func (n *Continued) Go() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stall, n.st.next = n.stall, n
	n.closed.Store(n.st.closed)
}

// Writer is where the answer goes on.
func (n *Continued) Writer() http.ResponseWriter { return &n.st.answer }

// A Continued is the context of its stream, without what was added to that for the request: it is done when the stream is over. Steps ask
// for that often, and of many streams: the answer is where they are at work anyway.
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
	<-n.st.ctx.Done() // is just being closed
	return n.st.ctx.Err()
}

// Wake has a step made. It does not block.
func (n *Continued) Wake() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake(n)
}

// WakeIn has a step made in a while, or a little earlier, with others of the connection.
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

// Aside has others go on while the step takes its time.
func (n *Continued) Aside() {
	c := n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside(n)
}

// begin is called when the handler has returned. What belongs to the request alone is let go.
func (n *Continued) begin() {
	st := n.st
	st.r, st.serve, st.answer.header = nil, nil, nil
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	n.begun = true
	st.c.wake(n)
}

// step makes a step, and ends the answer after the last one.
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

// fail ends an answer whose handler, or step, did not return.
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
		if p := recover(); p != nil { // it must not end the process
			n.st.panicked(p)
		}
	}()
	n.sequel.End(cause)
}

// wake has a step of a stream made. The caller holds mu.
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

// run makes them until there are none, or another goroutine goes on because one takes its time.
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

// gathers tells whether what a stream sends leaves with what others send, whose steps are made next. The caller holds mu.
func (c *conn) gathers(st *stream) bool {
	return st.next != nil && c.step == st.next && len(c.woken) > 0
}

// aside has another goroutine make the steps of others, if this one would. The caller holds mu.
func (c *conn) aside(n *Continued) {
	if n != c.step || n == nil {
		return
	}
	c.step = nil
	if c.stepping = len(c.woken) > 0 || len(c.out) > 0; c.stepping {
		c.srv.work.run((*steps)(c))
	}
}

// stalls is called before a stream waits for its client, or for others who do. The caller holds mu, which is not held meanwhile.
func (st *stream) stalls() {
	if n := st.next; n != nil && n.begun {
		st.c.mu.Unlock()
		n.sequel.Waits()
		st.c.mu.Lock()
	}
}
