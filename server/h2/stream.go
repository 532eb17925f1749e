package h2

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// stream is a request and its response (RFC 9113, 5.1). conn.mu guards everything but the response. Streams in conn.streams are open or half
// closed; all others are closed.
type stream struct {
	c      *conn
	id     uint32
	r      *http.Request
	head   bool // for method HEAD: the response has no body
	serve  http.HandlerFunc
	ctx    context.Context
	cancel context.CancelFunc
	answer response
	next   *Continued // continues the response after the handler; nil: nothing does

	remoteClosed bool // the client has sent everything
	announced    bool // the request names trailers
	closed       bool
	err          error // why it is closed
	body         body

	window  int64     // send window, in bytes (6.9)
	changed sync.Cond // with conn.mu: signals everything for which a writing handler may wait
	waits   bool      // for a window
	starved bool      // is in conn.starved
	turn    bool      // may write to the connection; conn.writing is set for it
	bulk    bool      // is in conn.bulk
	until   time.Time // see limitWrites
	// unhurried: until is endMost after the handler returned, unless the server ends.
	unhurried bool
}

// unopened tells whether a stream was never opened (5.1.1). The server opens none. The caller holds mu.
func (c *conn) unopened(id uint32) bool { return id%2 == 0 || id > c.maxID && !c.goingAway }

// ignored tells whether a stream was opened after the GOAWAY (6.8). The caller holds mu.
func (c *conn) ignored(id uint32) bool { return c.goingAway && id > c.maxID }

// open opens the stream of the last header block.
func (c *conn) open() error {
	r := &c.header
	st := &stream{c: c, id: r.id, remoteClosed: r.ends}
	st.changed.L, st.body.changed.L = &c.mu, &c.mu
	st.body.inflow = inflow{left: streamWindow}
	st.answer.st = st
	st.ctx, st.cancel = context.WithCancel(c.ctx)
	req, err := c.newRequest(st.ctx, st, r.ends)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.maxID = r.id
	if err != nil {
		st.cancel()
		return streamError{r.id, http2.ErrCodeProtocol}
	}
	if len(c.streams) >= c.srv.maxStreams {
		st.cancel()
		return streamError{r.id, http2.ErrCodeRefusedStream} // 5.1.2
	}
	st.r, st.head, st.serve, st.window = req, req.Method == http.MethodHead, c.handler.ServeHTTP, c.initial
	st.announced = req.Trailer != nil
	if refuse := c.refused(req); refuse != nil {
		st.serve = refuse
	}
	if c.streams[st.id] = st; len(c.streams) == 1 {
		c.setState(http.StateActive)
	}
	if hs := c.srv.http; hs.ReadTimeout > 0 {
		st.body.deadline = time.Now().Add(hs.ReadTimeout)
	}
	if hs := c.srv.http; hs.WriteTimeout > 0 {
		st.limitWrites(time.Now().Add(hs.WriteTimeout))
	}
	return c.start(st)
}

// start runs the handler of a stream. There are never more handlers than allowed streams: handlers of reset streams count until they return, and a
// client that keeps opening and resetting streams is disconnected (CVE-2023-44487). The caller holds mu.
func (c *conn) start(st *stream) error {
	if c.handlers < c.srv.maxStreams {
		c.handlers++
		c.srv.work.run(st)
		return nil
	}
	if c.queued = append(c.queued, st); len(c.queued) > 4*c.srv.maxStreams {
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// run runs the handler, on its own goroutine.
func (st *stream) run() {
	panicked := true
	defer func() {
		form := st.r.MultipartForm
		switch {
		case panicked && st.next != nil:
			st.next.fail(recover())
		case panicked:
			st.panicked(recover())
			st.done()
		case st.next != nil:
			st.next.begin()
		default:
			st.done()
		}
		if form != nil {
			_ = form.RemoveAll() // uploaded files, which are not needed any more
		}
	}()
	st.serve(&st.answer, st.r)
	if st.next == nil {
		st.answer.finish()
	}
	panicked = false
}

// panicked resets the stream of a handler that panicked, so that the response does not look complete.
func (st *stream) panicked(p any) {
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares so
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		st.c.logf("http2: panic serving %s: %v\n%s", st.c.remote, p, stack)
	}
	st.answer.drop()
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.closed {
		c.reset(st.id, http2.ErrCodeInternal, errPanicked)
		c.flush()
	}
}

// done lets the next handler run.
func (st *stream) done() {
	st.cancel()
	c := st.c
	st.answer.over = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers--
	for len(c.queued) > 0 && c.handlers < c.srv.maxStreams {
		next := c.queued[0]
		c.queued[0] = nil
		c.queued = c.queued[1:]
		if next.closed {
			continue
		}
		c.handlers++
		c.srv.work.run(next)
	}
}

// remoteEnds notes the end of the request body. If its length is not the declared one, the stream is reset before the handler can notice the end
// and respond. The caller holds mu, and flushes.
func (st *stream) remoteEnds() {
	b := &st.body
	st.remoteClosed = true
	if b.declared >= 0 && b.declared != b.received { // 8.1.1
		st.c.reset(st.id, http2.ErrCodeProtocol, fmt.Errorf("request declared a Content-Length of %d but only wrote %d bytes", b.declared, b.received))
		return
	}
	b.end(io.EOF)
}

// reset resets a stream from this side (6.4), open or not. The caller holds mu, and flushes.
func (c *conn) reset(id uint32, code http2.ErrCode, why error) {
	c.out = appendReset(c.grown(), id, code)
	c.countControl()
	c.resets.add(id)
	if st := c.streams[id]; st != nil {
		c.close(st, why)
	}
}

// close ends a stream, for whatever reason. The caller holds mu.
func (c *conn) close(st *stream, why error) {
	st.closed, st.err = true, why
	delete(c.streams, st.id)
	c.closed.add(st.id)
	c.credit(&c.inflow, 0, st.body.fail(why)) // sent with the next frames
	st.noBulk()
	st.c.hurry()
	st.changed.Broadcast()
	st.cancel()
	if st.next != nil {
		st.next.closed.Store(true)
		c.wake(st.next)
	}
	if len(c.streams) == 0 {
		c.becameIdle()
		c.closeWhenDone()
	}
}
