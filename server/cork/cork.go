package cork

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

const (
	// most is how much is held back, in bytes: what the kernel passes on as two pieces at best. A reader that waits is woken for
	// each write.
	most = 128 << 10
	// room is for most and the record that exceeds it.
	room = most + 20<<10
)

var rooms = sync.Pool{New: func() any { return new([room]byte) }}

// Conn is a connection on which writes can be held back. Without Cork it is the connection it wraps.
type Conn struct {
	net.Conn

	mu      sync.Mutex
	corked  bool
	sending bool // Uncork writes what was held back; what others write meanwhile is held back until that is done
	sent    sync.Cond
	held    []byte // of room; nil while nothing is held back
	err     error  // of a write of what was held back: its writer has heard of success
}

// Listener returns l with connections that can be corked.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(c), nil
}

func newConn(c net.Conn) *Conn {
	corkable := &Conn{Conn: c}
	corkable.sent.L = &corkable.mu
	return corkable
}

type contextKey struct{}

// Context is the ConnContext of an http.Server whose listener is Listener's.
func Context(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if c, ok := c.(*Conn); ok {
		ctx = context.WithValue(ctx, contextKey{}, c)
	}
	return ctx
}

// Of returns the connection of a request, or nil if it cannot be corked. The methods Cork and Uncork of nil do nothing.
func Of(r *http.Request) *Conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(contextKey{}).(*Conn)
	return c
}

// NetConn is the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Cork holds back what is written from now on, as far as there is room, until Uncork. What net/http holds back itself has
// to be flushed before Uncork, or it takes a write of its own. Whoever corks must uncork before the handler returns:
// otherwise the end of the answer never leaves.
func (c *Conn) Cork() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = true
}

// Uncork sends what was held back. Its error, as that of other writes, is the error of every later write.
//
// A client that reads nothing may keep it waiting, and nobody else is to wait with it: crypto/tls sends an alert before it
// closes a connection, unless it is writing itself, and when the server ends there may be many such connections to close.
func (c *Conn) Uncork() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = false
	if c.sending {
		return
	}
	c.sending = true
	for c.held != nil && c.err == nil {
		held := c.held
		c.held = nil
		c.mu.Unlock()
		_, err := c.Conn.Write(held)
		putRoom(held)
		c.mu.Lock()
		c.err = err
	}
	c.sending = false
	c.sent.Broadcast()
}

// Write writes p, or holds it back.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.sending && len(c.held)+len(p) > room {
		c.sent.Wait()
	}
	if c.err != nil {
		return 0, c.err
	}
	if len(c.held)+len(p) > room {
		if err := c.send(); err != nil {
			return 0, err
		}
	}
	if !c.corked && !c.sending || len(p) > room {
		return c.Conn.Write(p)
	}
	if c.held == nil {
		c.held = rooms.Get().(*[room]byte)[:0]
	}
	if c.held = append(c.held, p...); len(c.held) >= most && !c.sending {
		if err := c.send(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// send writes what was held back. The caller holds mu, and Uncork is not sending.
func (c *Conn) send() error {
	if c.held == nil {
		return nil
	}
	_, c.err = c.Conn.Write(c.held)
	putRoom(c.held)
	c.held = nil
	return c.err
}

func putRoom(held []byte) { rooms.Put((*[room]byte)(held[:room])) }
