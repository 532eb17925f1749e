// Package requestctx is the context of one request, with all its values in one place.
//
// The handlers of a request add one value after another: the RequestInfo, the user, the deadline. With context.WithValue each would be a
// link of a chain that all later look-ups walk along, and with http.Request.WithContext a copy of the request; both together cost more than
// reading an object. A Context is filled in place instead, and has a timer only when its end is waited for.
//
//	context.go  the Context
//	keys.go     the values that upstream keeps in contexts, under upstream's keys
package requestctx

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Context is the context of a request under construction: the goroutine that answers the request sets values (Set) and a deadline (Limit)
// in place. Other goroutines may read its values meanwhile, such as those that dial for a webhook. It must not be kept beyond the request:
// contexts derived from it end with the request, but the Context itself does not.
type Context struct {
	parent context.Context
	// received is what request.ReceivedTimestampFrom finds: upstream counts the time in a queue from then.
	received           time.Time
	allowed, forwarded bool
	n                  atomic.Int32 // the number of values; those below it do not change
	keys               [room]any
	values             [room]any

	mu       sync.Mutex
	deadline time.Time // zero: the deadline of parent
	// timed is parent with the deadline; nil until the end is waited for.
	timed  context.Context
	cancel context.CancelFunc
}

// room is the number of values in a Context. Further values are set by context.WithValue.
const room = 12

var _ context.Context = (*Context)(nil)

// New returns the Context of a request that was received just now. It ends with its parent, and has its parent's values.
func New(parent context.Context) *Context { return &Context{parent: parent, received: time.Now()} }

// Set returns ctx with a value, as context.WithValue does. It returns ctx itself if that is a Context without a value for the key.
func Set(ctx context.Context, key, value any) context.Context {
	c, ok := ctx.(*Context)
	if !ok {
		return context.WithValue(ctx, key, value)
	}
	n := c.n.Load()
	if n == room || slices.Contains(c.keys[:n], key) {
		return context.WithValue(ctx, key, value)
	}
	c.keys[n], c.values[n] = key, value
	c.n.Store(n + 1)
	return c
}

// Allow records that the request may proceed to its handler. It, Disallow and Allowed are for the goroutine that answers the request.
func Allow(ctx context.Context) { setAllowed(ctx, true) }

// Disallow takes Allow back: there is no handler for the path.
func Disallow(ctx context.Context) { setAllowed(ctx, false) }

func setAllowed(ctx context.Context, allowed bool) {
	if c, ok := ctx.Value((*Context)(nil)).(*Context); ok {
		c.allowed = allowed
	}
}

// Allowed reports whether Allow was called for the request, and not taken back.
func Allowed(ctx context.Context) bool {
	c, ok := ctx.Value((*Context)(nil)).(*Context)
	return ok && c.allowed
}

// Forward records that another server answers the request. It and Forwarded are for the goroutine that answers the request.
func Forward(ctx context.Context) {
	if c, ok := ctx.Value((*Context)(nil)).(*Context); ok {
		c.forwarded = true
	}
}

// Forwarded reports whether Forward was called for the request.
func Forwarded(ctx context.Context) bool {
	c, ok := ctx.Value((*Context)(nil)).(*Context)
	return ok && c.forwarded
}

// Limit returns ctx with a timeout, and a function that ends the timeout, which the caller must call. It returns ctx itself if that is a
// Context without a deadline. end then cancels the contexts derived from it and takes its deadline away, so that it still shows whether
// the client is connected.
func Limit(ctx context.Context, timeout time.Duration) (limited context.Context, end func()) {
	c, ok := ctx.(*Context)
	if !ok || !c.limit(time.Now().Add(timeout)) {
		return context.WithTimeout(ctx, timeout)
	}
	return c, c.unlimited
}

// Late reports whether the deadline of ctx has passed. It compares the clock: net/http cancels a request whose body is not read in time, which is the same
// moment, so that the error of ctx may be that one.
func Late(ctx context.Context) bool {
	until, limited := ctx.Deadline()
	return limited && !time.Now().Before(until)
}

func (c *Context) limit(until time.Time) bool {
	if earlier, ok := c.parent.Deadline(); ok && earlier.Before(until) {
		until = earlier
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil || !c.deadline.IsZero() {
		return false
	}
	c.deadline = until
	return true
}

func (c *Context) unlimited() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
	c.deadline, c.timed, c.cancel = time.Time{}, nil, nil
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.IsZero() {
		return c.parent.Deadline()
	}
	return c.deadline, true
}

// Done implements context.Context. The first call starts a timer.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deadline.IsZero() {
		return c.parent.Done()
	}
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.parent, c.deadline)
	}
	return c.timed.Done()
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Err()
	}
	if err := c.parent.Err(); err != nil || c.deadline.IsZero() {
		return err
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Contexts derived from one with a deadline find by it that they end with timed.
func (c *Context) Value(key any) any {
	for i := range c.n.Load() {
		if c.keys[i] == key {
			return c.values[i]
		}
	}
	switch key {
	case receivedKey:
		return c.received
	case (*Context)(nil):
		return c
	}
	c.mu.Lock()
	under := c.timed
	c.mu.Unlock()
	if under == nil {
		under = c.parent
	}
	return under.Value(key)
}
