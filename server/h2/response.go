package h2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// response is the http.ResponseWriter of a stream. Only the handler's goroutine uses it.
type response struct {
	st       *stream
	header   http.Header
	fields   []hpack.HeaderField // the header when the status was written
	status   int                 // 0: not written
	declared int64               // Content-Length; -1: none
	plain    bool                // do not guess the Content-Type
	dated    bool                // the handler has set Date
	sent     bool                // the header was sent; written under conn.mu
	written  int64
	data     frames
	trailers []string // announced
	over     bool     // the handler has returned
}

var (
	_ http.Flusher       = (*response)(nil)
	_ http.CloseNotifier = (*response)(nil) //nolint:staticcheck // wrappers of writers may use it
)

var errOver = errors.New("http2: the handler has returned")

// Header is the header for WriteHeader, and then has the trailers.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header, 8)
	}
	return w.header
}

// WriteHeader sets the status. A status below 200 is sent at once, and others may follow (RFC 9110, 15.2).
func (w *response) WriteHeader(code int) {
	if w.status != 0 || w.over {
		return
	}
	if code < 100 || code > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	}
	if code < 200 {
		w.inform(code)
		return
	}
	w.status, w.declared = code, -1
	h := w.header
	if clen, ok := h["Content-Length"]; ok && len(clen) > 0 {
		if n, err := strconv.ParseUint(clen[0], 10, 63); err == nil {
			w.declared = int64(n)
		}
	}
	_, typed := h["Content-Type"]
	w.plain = typed || h.Get("Content-Encoding") != "" // the type cannot be guessed from encoded bytes
	_, w.dated = h["Date"]
	for _, value := range h["Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			w.announce(strings.TrimSpace(name))
		}
	}
	if h.Get("Connection") == "close" {
		c := w.st.c
		c.mu.Lock()
		c.goAway(http2.ErrCodeNo)
		c.mu.Unlock()
	}
	w.fields = appendFields(make([]hpack.HeaderField, 0, len(h)+3), h, "Content-Length")
}

func (w *response) inform(code int) {
	c := w.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.st.closed || c.waitForRoom(w.st) != nil {
		return
	}
	c.appendHeaders(w.st.id, code, appendFields(nil, w.header, "Content-Length"), false)
	c.flush()
}

// announce notes a trailer (RFC 9110, 6.5).
func (w *response) announce(name string) {
	name = http.CanonicalHeaderKey(name)
	if httpguts.ValidTrailerHeader(name) && !slices.Contains(w.trailers, name) {
		w.trailers = append(w.trailers, name)
	}
}

// Write buffers p, and sends what fills a large buffer. Its error may be that of an earlier write.
func (w *response) Write(p []byte) (int, error) {
	if w.over {
		return 0, errOver
	}
	w.WriteHeader(http.StatusOK)
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	w.written += int64(len(p))
	if w.declared >= 0 && w.written > w.declared {
		return 0, http.ErrContentLength
	}
	for n := 0; n < len(p); {
		if cap(w.data.b) == 0 {
			w.begin(len(p) - n)
		}
		n += w.data.fill(p[n:])
		switch {
		case n == len(p):
		case cap(w.data.b) < largeRoom:
			w.data.grow()
		default:
			if err := w.push(false, false); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// WriteString is Write.
func (w *response) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// Gathers marks a writer that buffers: callers need no buffer of their own.
func (w *response) Gathers() {}

// begin takes a buffer; n is the size of the first write.
func (w *response) begin(n int) {
	c := w.st.c
	c.mu.Lock()
	most := c.frameMost
	c.mu.Unlock()
	w.data = frames{size: min(most, largeRoom-frameHeader)}
	if n > smallRoom-frameHeader {
		w.data.b = larges.Get().(*[largeRoom]byte)[:0]
	} else {
		w.data.b = smalls.Get().(*[smallRoom]byte)[:0]
	}
}

// drop returns the buffer.
func (w *response) drop() {
	putFrames(w.data.b)
	w.data = frames{}
}

// lengthMost is the body size up to which the server adds a Content-Length. golang.org/x/net/http2 adds it while its buffer holds the body.
const lengthMost = 4 << 10

// complete adds the fields that the handler left to the server.
func (w *response) complete(last bool) {
	head := w.st.head
	n := w.data.left()
	length := w.declared
	if length < 0 && last && n <= lengthMost && bodyAllowed(w.status) && (n > 0 || !head) {
		length = int64(n)
	}
	if !w.plain && n > 0 {
		sniff := w.data.b[frameHeader:min(len(w.data.b), frameHeader+512)]
		w.add("Content-Type", http.DetectContentType(sniff))
	}
	if length >= 0 {
		w.add("Content-Length", strconv.FormatInt(length, 10))
	}
	if !w.dated {
		w.add("Date", date(time.Now()))
	}
}

func (w *response) add(name, value string) {
	to := outgoings[name]
	w.fields = append(w.fields, hpack.HeaderField{Name: to.name, Value: value, Sensitive: to.once})
}

// push sends the header, if necessary, and the buffered data. The last push ends the stream. rests says that a pause may follow.
func (w *response) push(last, rests bool) error {
	if !w.sent {
		w.complete(last)
	}
	st, c := w.st, w.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if last && st.until.IsZero() { // a client that grants no window would keep the data and the goroutine for as long as it likes
		st.unhurried = true
		most := c.srv.endMost
		if c.goingAway {
			most = c.srv.writeMost
		}
		st.limitWrites(time.Now().Add(most))
	}
	err := c.waitForRoom(st)
	if err == nil {
		err = w.gather(last)
	}
	w.data.b, w.data.from = w.data.b[:0], 0
	if rests {
		st.noBulk()
	}
	if err != nil {
		return err
	}
	switch {
	case !last || st.closed:
	case st.remoteClosed:
		c.close(st, errOver)
	default:
		c.refuse(st)
	}
	if !c.gathers(st) {
		st.flush()
	}
	return nil
}

// refuse ends the stream of a client that is still sending its body after the response, with a RST_STREAM that asks it to stop (RFC 9113, 8.1). The
// response is sent before and separately: clients that find both in one read drop it (curl up to 7.88, for one). A write cannot be interrupted by
// the stream's deadline: a client that does not read is hurried as at the end of a stream. The caller holds mu, and flushes.
func (c *conn) refuse(st *stream) {
	c.hurry()
	turn := c.acquire(st) == nil
	if turn {
		c.send(nil)
	}
	if !st.closed { // the client may have reset it meanwhile, or finished its body
		if !st.remoteClosed {
			c.out = appendReset(c.grown(), st.id, http2.ErrCodeNo)
			c.resets.add(st.id)
		}
		c.close(st, errOver)
	}
	if turn {
		c.release()
	}
}

// gather puts the response so far into conn.out. The caller holds conn.mu.
func (w *response) gather(last bool) error {
	st, c := w.st, w.st.c
	head := st.head
	trailer := w.trailer(last)
	ends := last && trailer == nil
	if !w.sent {
		w.sent = true
		done := ends && len(w.data.b) == 0 || head
		c.appendHeaders(st.id, w.status, w.fields, done)
		w.fields = nil
		if done {
			return nil
		}
	}
	if head {
		return nil
	}
	if len(w.data.b) > 0 {
		if err := c.sendData(st, &w.data, ends); err != nil {
			return err
		}
	} else if ends {
		c.out = appendHead(c.grown(), 0, http2.FrameData, http2.FlagDataEndStream, st.id)
	}
	if trailer != nil && !st.closed { // the stream may have been reset during the write
		c.appendHeaders(st.id, 0, trailer, true)
	}
	return nil
}

// trailer returns the trailers, or nil.
func (w *response) trailer(last bool) (fields []hpack.HeaderField) {
	if !last {
		return nil
	}
	for name, values := range w.header { // net/http's way to send trailers without announcing them
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.announce(name)
			w.header[http.CanonicalHeaderKey(name)] = values
		}
	}
	slices.Sort(w.trailers)
	for _, name := range w.trailers {
		if values, ok := w.header[name]; ok {
			fields = appendFields(fields, http.Header{name: values})
		}
	}
	return fields
}

// finish ends the response.
func (w *response) finish() {
	w.WriteHeader(http.StatusOK)
	if w.written < w.declared && bodyAllowed(w.status) && !w.st.head {
		w.st.panicked(http.ErrAbortHandler) // a truncated response must not look complete
		return
	}
	_ = w.push(true, true) // the client is gone: the error cannot be reported
	w.drop()
}

// FlushError sends the buffered data, and releases the buffer.
func (w *response) FlushError() error {
	if w.over {
		return errOver
	}
	w.WriteHeader(http.StatusOK)
	err := w.push(false, true)
	w.drop()
	return err
}

// Flush is FlushError.
func (w *response) Flush() { _ = w.FlushError() }

// CloseNotify signals the end of the stream.
func (w *response) CloseNotify() <-chan bool {
	ended := make(chan bool, 1)
	context.AfterFunc(w.st.ctx, func() { ended <- true })
	return ended
}

// EnableFullDuplex does nothing: a body can always be read while the response is written.
func (w *response) EnableFullDuplex() error { return nil }

// SetReadDeadline sets the deadline for reads of the body.
func (w *response) SetReadDeadline(at time.Time) error {
	c, b := w.st.c, &w.st.body
	c.mu.Lock()
	defer c.mu.Unlock()
	b.deadline = at
	b.changed.Broadcast()
	return nil
}

// SetWriteDeadline sets the time at which the stream is reset, unless its response is sent by then. It remains set when the handler returns; a
// response without one must be sent within endMost after that.
func (w *response) SetWriteDeadline(at time.Time) error {
	c := w.st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !at.IsZero() && !at.After(time.Now()) {
		if !w.st.closed {
			c.reset(w.st.id, http2.ErrCodeInternal, errWriteDeadline)
			c.flush()
		}
		return nil
	}
	w.st.limitWrites(at)
	return nil
}

// bodyAllowed tells whether a response with that status has a body (RFC 9110, 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
