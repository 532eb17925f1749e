package authn

import (
	"crypto/tls"
	"runtime"
	"sync"
	"weak"
)

// connections caches a value for each connection while that is open.
//
// The key is the *tls.ConnectionState: net/http passes the same one to every request of a connection, over HTTP/1.1 and HTTP/2. It is
// held weakly, and an entry is removed when its connection is gone.
type connections[T any] struct {
	known sync.Map // of weak.Pointer[tls.ConnectionState] to *T
}

// get returns the value of a connection, nil when there is none.
func (c *connections[T]) get(connection *tls.ConnectionState) *T {
	entry, ok := c.known.Load(weak.Make(connection))
	if !ok {
		return nil
	}
	return entry.(*T)
}

// put sets the value of a connection.
func (c *connections[T]) put(connection *tls.ConnectionState, v *T) {
	key := weak.Make(connection)
	if _, again := c.known.Swap(key, v); !again {
		runtime.AddCleanup(connection, func(key weak.Pointer[tls.ConnectionState]) { c.known.Delete(key) }, key)
	}
}
