package h2

import (
	"sync"

	"golang.org/x/net/http2"
)

const (
	// largeRoom is how much of a response is sent at a time, in bytes, headers of frames included: eight TLS records. With what TLS and TCP add
	// they fill two packets of the kernel's largest size, 64 KiB, and need no third.
	largeRoom = 127 << 10
	// smallRoom is the initial size of a response's buffer: most responses are no larger.
	smallRoom = 8 << 10
	// copyMost is the size in bytes up to which data are copied to conn.out instead of being written separately.
	copyMost = 24 << 10
)

var (
	larges = sync.Pool{New: func() any { return new([largeRoom]byte) }}
	smalls = sync.Pool{New: func() any { return new([smallRoom]byte) }}
)

// frames is a buffer of DATA frames: room for a frame's header, its data, room for the next. So they can be sent without copying.
type frames struct {
	b    []byte // its capacity is smallRoom or largeRoom
	size int    // of a full frame's data
	from int    // position of the first unsent frame
}

// left is how many bytes of data are unsent.
func (f *frames) left() int {
	n := 0
	for at := f.from; at < len(f.b); at = f.end(at) {
		n += f.end(at) - at - frameHeader
	}
	return n
}

// end is the end of the frame at a position. A partly sent frame begins later than before, and ends at the same position.
func (f *frames) end(at int) int {
	whole := f.size + frameHeader
	return min((at/whole+1)*whole, len(f.b))
}

// fill copies as much of p as fits.
func (f *frames) fill(p []byte) (n int) {
	whole := f.size + frameHeader
	for n < len(p) {
		if len(f.b)%whole == 0 {
			if len(f.b)+frameHeader >= cap(f.b) {
				break
			}
			f.b = f.b[:len(f.b)+frameHeader]
		}
		room := min(whole-len(f.b)%whole, cap(f.b)-len(f.b))
		if room == 0 {
			break
		}
		k := min(room, len(p)-n)
		f.b = append(f.b, p[n:n+k]...)
		n += k
	}
	return n
}

// grow at least doubles the buffer.
func (f *frames) grow() {
	b := larges.Get().(*[largeRoom]byte)[:0]
	b = append(b, f.b...)
	putFrames(f.b)
	f.b = b
}

func putFrames(b []byte) {
	switch cap(b) {
	case largeRoom:
		larges.Put((*[largeRoom]byte)(b[:largeRoom]))
	case smallRoom:
		smalls.Put((*[smallRoom]byte)(b[:smallRoom]))
	}
}

// next writes the headers of as many frames as the windows allow, and takes these frames: f.b[from:to] is to be sent. If a frame may be sent only
// in part, it is the last one: the header of its rest will overwrite data that have been sent by then. The caller holds mu.
func (c *conn) next(st *stream, f *frames, ends bool) (from, to int) {
	from, to = f.from, f.from
	allowed := min(st.window, c.window)
	for to < len(f.b) && allowed > 0 {
		end := f.end(to)
		n := int(min(int64(end-to-frameHeader), allowed, int64(c.frameMost)))
		whole := to+frameHeader+n == end
		var flags http2.Flags
		if whole && ends && end == len(f.b) {
			flags = http2.FlagDataEndStream
		}
		putHead(f.b[to:], n, http2.FrameData, flags, st.id)
		allowed -= int64(n)
		st.window -= int64(n)
		c.window -= int64(n)
		to += frameHeader + n
		if !whole {
			f.from = to - frameHeader
			return from, to
		}
		f.from = to
	}
	return from, to
}

// sendData sends the contents of f, as far as windows and the turns of others allow. The caller holds mu. Data of f may be in conn.out afterwards,
// which must be flushed.
func (c *conn) sendData(st *stream, f *frames, ends bool) error {
	for f.from < len(f.b) {
		if st.closed {
			return st.err
		}
		if c.err != nil {
			return c.err
		}
		if min(st.window, c.window) <= 0 {
			if err := c.waitForWindow(st); err != nil {
				return err
			}
		}
		if len(f.b)-f.from <= copyMost && len(c.out) < outMost {
			from, to := c.next(st, f, ends)
			c.out = append(c.grownBy(to-from), f.b[from:to]...)
			continue
		}
		if err := c.acquire(st); err != nil {
			return err
		}
		st.isBulk()
		from, to := c.next(st, f, ends) // empty if others have used up the window meanwhile
		c.send(f.b[from:to])
		c.release()
		if !c.patient(st) {
			c.read()
		}
	}
	c.feed()
	return nil
}

func (st *stream) isBulk() {
	if !st.bulk && !st.closed {
		st.bulk = true
		st.c.bulk = append(st.c.bulk, st)
	}
}

// noBulk is called when a stream has nothing more to send for now. The caller holds mu.
func (st *stream) noBulk() {
	if st.bulk {
		st.bulk = false
		if st.c.bulk = without(st.c.bulk, st); len(st.c.bulk) == 0 {
			st.c.read()
		}
	}
}

// waitForWindow flushes, and waits until the stream may send something (RFC 9113, 6.9). Streams that wait for the connection's window are served in
// turn: each one that continues wakes the next if something is left. So a client that grants little at a time wakes one stream and not all. The
// caller holds mu.
func (c *conn) waitForWindow(st *stream) error {
	st.flush()
	c.aside(st.next)
	st.stalls()
	st.waits = true
	for !st.closed && min(st.window, c.window) <= 0 {
		if !c.patient(st) {
			c.read()
		}
		switch queue := st.window > 0; {
		case queue && !st.starved:
			st.starved = true
			c.starved = append(c.starved, st)
		case !queue && st.starved: // a setting has reduced its window
			st.fed()
			c.feed()
		}
		st.changed.Wait()
	}
	st.waits = false
	st.fed()
	if st.closed {
		c.feed()
		return st.err
	}
	return nil
}

func (st *stream) fed() {
	if st.starved {
		st.starved = false
		st.c.starved = without(st.c.starved, st)
	}
}

// feed wakes the stream that has waited longest for the connection's window, if that is open. The caller holds mu.
func (c *conn) feed() {
	if c.window > 0 && len(c.starved) > 0 {
		c.starved[0].changed.Broadcast()
	}
}

// windowGrew wakes the handler if it waits for the window. The caller holds mu.
func (st *stream) windowGrew() {
	if st.waits {
		st.changed.Broadcast()
	}
}
