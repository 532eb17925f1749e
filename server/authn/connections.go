package authn

import (
	"crypto/tls"
	"runtime"
	"sync"
	"weak"
)

// connections remembers something about each connection as long as that is open.
//
// net/http shows every request of a connection the same *tls.ConnectionState, over HTTP/1.1 and HTTP/2, which is therefore the key; it is
// held weakly, and an entry goes when its connection is gone.
type connections[T any] struct {
	known sync.Map // of weak.Pointer[tls.ConnectionState] to *T
}

// get returns what is remembered; nil: nothing.
func (c *connections[T]) get(connection *tls.ConnectionState) *T {
	entry, ok := c.known.Load(weak.Make(connection))
	if !ok {
		return nil
	}
	return entry.(*T)
}

// put remembers v in place of what was there.
func (c *connections[T]) put(connection *tls.ConnectionState, v *T) {
	key := weak.Make(connection)
	if _, again := c.known.Swap(key, v); !again {
		runtime.AddCleanup(connection, func(key weak.Pointer[tls.ConnectionState]) { c.known.Delete(key) }, key)
	}
}
