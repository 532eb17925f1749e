package h2

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// streamWindow and connWindow bound the unread bytes from a client, on a stream and on a connection (RFC 9113, 6.9). A connection has room for the
// unread bodies of as many streams as kube-apiserver allows by default, so that requests which wait for their authentication or their turn do not
// stop the bodies of others. A client can make the server hold 25 MiB with each connection, as with kube-apiserver.
const (
	streamWindow = 256 << 10
	connWindow   = 100*streamWindow + updateAt
	// updateAt is the number of read bytes which a WINDOW_UPDATE returns to the client.
	updateAt = 64 << 10
)

var (
	errBodyClosed    = errors.New("body closed by handler")
	errPanicked      = errors.New("http2: the handler panicked")
	errWriteDeadline = fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
	errReadDeadline  = fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
)

// inflow is the flow control of received data.
type inflow struct {
	left int // what the client may still send
	owed int // read, but not yet returned by a WINDOW_UPDATE
}

func (f *inflow) take(n int) bool {
	if n > f.left {
		return false
	}
	f.left -= n
	return true
}

// credit lets the client send n more bytes, with a WINDOW_UPDATE once enough of them are due; stream 0 is the connection. The caller holds mu, and
// flushes.
func (c *conn) credit(f *inflow, id uint32, n int) {
	if f.owed += n; f.owed < updateAt {
		return
	}
	c.out = appendWindowUpdate(c.grown(), id, f.owed)
	f.left += f.owed
	f.owed = 0
}

// body is the body of a request. It is guarded by conn.mu.
type body struct {
	changed  sync.Cond
	data     []byte
	read     int // of data
	err      error
	closed   bool // by the handler
	declared int64
	received int64
	inflow   inflow
	trailer  http.Header
	deadline time.Time
	// sayContinue is set while the client waits for a 100 (Continue) before it sends the body (RFC 9110, 10.1.1).
	sayContinue bool
}

// end sets the error after the data, once.
func (b *body) end(err error) {
	if b.err == nil {
		b.err = err
	}
	b.changed.Broadcast()
}

// fail ends the body early, unless all of it was read, and returns how many bytes were not read. Even if the client has sent everything, the body
// does not end with io.EOF then: the handler would take a part of it for the whole.
func (b *body) fail(why error) int {
	n := b.drop()
	if n > 0 {
		b.err = why
	}
	b.end(why)
	return n
}

// drop discards unread data, and returns how many bytes they were.
func (b *body) drop() int {
	n := len(b.data) - b.read
	b.data, b.read = nil, 0
	return n
}

// firstRoom bounds the initial size of the buffer, which is four times what has arrived, or all that the client has declared. A full and unread buffer
// doubles. So a client that declares much and sends little takes little.
const firstRoom = 64 << 10

// add appends data.
func (b *body) add(p []byte) {
	if b.data == nil && b.declared > 0 {
		b.data = make([]byte, 0, max(len(p), int(min(b.declared, int64(4*len(p)), firstRoom))))
	}
	if b.read > 0 && len(b.data)+len(p) > cap(b.data) {
		b.data = b.data[:copy(b.data, b.data[b.read:])]
		b.read = 0
	}
	if n := len(b.data) + len(p); n > cap(b.data) && b.declared > 0 {
		b.data = append(make([]byte, 0, max(n, int(min(b.declared, int64(2*cap(b.data)))))), b.data...)
	}
	b.data = append(b.data, p...)
	b.changed.Broadcast()
}

// readData reads a DATA frame (6.1).
func (c *conn) readData(h head) error {
	whole, ends := h.length, h.flags.Has(http2.FlagDataEndStream)
	if h.id == 0 {
		return connError(http2.ErrCodeProtocol)
	}
	padding, err := c.readPadding(&h)
	if err != nil {
		return err
	}
	if h.length == 0 && !ends {
		if err := c.calm.idle(); err != nil {
			return err
		}
	}
	st, refused := c.admit(h, whole)
	if refused != nil || st == nil {
		if err := c.skip(h.length + padding); err != nil {
			return err
		}
		return refused
	}
	if err := c.copyData(st, h.length); err != nil {
		return err
	}
	if err := c.skip(padding); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.flushSoon()
	c.credit(&c.inflow, 0, whole-h.length)
	if st.closed {
		return nil
	}
	if ends {
		st.remoteEnds()
		return nil
	}
	c.credit(&st.body.inflow, st.id, whole-h.length)
	return nil
}

// admit returns the stream of a frame, or nil if the frame must be skipped; the error, if any, tells why.
func (c *conn) admit(h head, whole int) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unopened(h.id) {
		return nil, connError(http2.ErrCodeProtocol)
	}
	if !c.inflow.take(whole) {
		return nil, connError(http2.ErrCodeFlowControl)
	}
	st := c.streams[h.id]
	var err error
	switch {
	case st == nil && (c.ignored(h.id) || c.resets.has(h.id)):
		err = c.calm.idle()
		st = nil
	case st == nil || st.remoteClosed:
		if err = c.calm.idle(); err == nil {
			err = streamError{h.id, http2.ErrCodeStreamClosed} // 5.1
		}
	case st.body.declared >= 0 && st.body.received+int64(h.length) > st.body.declared:
		c.reset(h.id, http2.ErrCodeProtocol, fmt.Errorf("sender tried to send more than declared Content-Length of %d bytes", st.body.declared)) // 8.1.1
	case !st.body.inflow.take(whole):
		err = streamError{h.id, http2.ErrCodeFlowControl}
	default:
		st.body.received += int64(h.length)
		return st, nil
	}
	c.credit(&c.inflow, 0, whole)
	c.flushSoon()
	return nil, err
}

// copyData reads that many bytes of a body as they arrive.
func (c *conn) copyData(st *stream, left int) error {
	for left > 0 {
		if _, err := c.br.Peek(1); err != nil {
			return err
		}
		p, err := c.br.Peek(min(left, c.br.Buffered()))
		if err != nil {
			return err
		}
		c.mu.Lock()
		if st.closed || st.body.closed {
			c.credit(&c.inflow, 0, len(p))
			c.flushSoon()
		} else {
			st.body.add(p)
		}
		c.mu.Unlock()
		if err := c.skip(len(p)); err != nil {
			return err
		}
		left -= len(p)
	}
	return nil
}

// requestBody is the handler's end of a body.
type requestBody struct{ st *stream }

// Read returns received data, or waits for some.
func (r requestBody) Read(p []byte) (int, error) {
	st, c, b := r.st, r.st.c, &r.st.body
	c.mu.Lock()
	defer c.mu.Unlock()
	st.sayContinue()
	for {
		switch {
		case b.closed:
			return 0, errBodyClosed
		case b.read < len(b.data):
			n := copy(p, b.data[b.read:])
			if b.read += n; b.read == len(b.data) {
				b.data, b.read = b.data[:0], 0
			}
			if !st.closed {
				c.credit(&c.inflow, 0, n)
				if !st.remoteClosed {
					c.credit(&b.inflow, st.id, n)
				}
				c.flush()
			}
			return n, nil
		case b.err != nil:
			b.giveTrailers(st.r)
			return 0, b.err
		case len(p) == 0:
			return 0, nil
		case !b.deadline.IsZero() && !time.Now().Before(b.deadline):
			b.err = errReadDeadline
			return 0, b.err
		}
		b.wait()
	}
}

// sayContinue tells a client that waits for it to send the body. The caller holds mu.
func (st *stream) sayContinue() {
	if c := st.c; st.body.sayContinue {
		st.body.sayContinue = false
		if !st.closed && !st.answer.sent {
			c.appendHeaders(st.id, http.StatusContinue, nil, false)
			c.countControl()
			c.flush()
		}
	}
}

// noBody is the body of a request that has none, although its client waits for a 100 (Continue): golang.org/x/net/http2 sends it when a handler
// reads.
type noBody struct{ st *stream }

// Read returns io.EOF.
func (n noBody) Read([]byte) (int, error) {
	n.st.c.mu.Lock()
	defer n.st.c.mu.Unlock()
	n.st.sayContinue()
	return 0, io.EOF
}

// Close does nothing.
func (noBody) Close() error { return nil }

// wait waits for a change of the body. A timer exists only during a wait.
func (b *body) wait() {
	if !b.deadline.IsZero() {
		t := time.AfterFunc(time.Until(b.deadline), func() {
			b.changed.L.Lock()
			defer b.changed.L.Unlock()
			b.changed.Broadcast()
		})
		defer t.Stop()
	}
	b.changed.Wait()
}

// giveTrailers sets those trailers of a request that it has announced.
func (b *body) giveTrailers(r *http.Request) {
	if !errors.Is(b.err, io.EOF) {
		return
	}
	for name, values := range b.trailer {
		if _, ok := r.Trailer[name]; ok {
			r.Trailer[name] = values
		}
	}
	b.trailer = nil
}

// Close discards the rest of the body.
func (r requestBody) Close() error {
	c, b := r.st.c, &r.st.body
	c.mu.Lock()
	defer c.mu.Unlock()
	b.closed = true
	if n := b.drop(); n > 0 && !r.st.closed {
		c.credit(&c.inflow, 0, n)
		c.flush()
	}
	b.changed.Broadcast()
	return nil
}
