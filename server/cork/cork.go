package cork

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

const (
	// most is how much is held back, in bytes: what the kernel passes on in two pieces at best. Each write wakes a waiting reader.
	most = 128 << 10
	// room fits most and the record that exceeds it.
	room = most + 20<<10
)

var rooms = sync.Pool{New: func() any { return new([room]byte) }}

// Conn is a connection that can hold back writes. Without Cork it behaves like the connection it wraps.
type Conn struct {
	net.Conn

	mu      sync.Mutex
	corked  bool
	sending bool // Uncork is writing; other writes are held back until it is done
	sent    sync.Cond
	held    []byte // a buffer of size room; nil while nothing is held back
	err     error  // error of a delayed write, which was reported as successful
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

// Of returns the connection of a request, or nil if it cannot be corked. Cork and Uncork of nil do nothing.
func Of(r *http.Request) *Conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(contextKey{}).(*Conn)
	return c
}

// NetConn returns the wrapped connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Cork holds back later writes until Uncork, as far as there is room. Data buffered in net/http must be flushed before Uncork; otherwise they take
// a write of their own. A handler that corks must uncork before it returns; otherwise the end of the response is never sent.
func (c *Conn) Cork() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.corked = true
}

// Uncork sends what was held back. Its error, like that of other writes, is the error of every later write.
//
// A client that reads nothing may block it, and must not block others: crypto/tls sends an alert before it closes a connection, unless it is
// writing, and a server that shuts down may have many such connections to close.
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
