// Package requestctx is the context of one request: what is known of it, in one place.
//
// What a request passes through finds out one thing after another: what the request is about, who sent it, until when it is to be
// answered. With context.WithValue each would be a link of a chain that all later questions walk along, and with
// http.Request.WithContext a copy of the request; both together cost more than reading an object. A Context is filled in place
// instead, and has a timer only when somebody waits for its end.
//
//	context.go  the Context
//	keys.go     what upstream keeps in contexts, under upstream's keys
package requestctx

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Context is the context of a request while it is being made: values are set in place (Set), and a limit of time (Limit), by the goroutine
// that answers the request. Others may ask it for values meanwhile, as those do that dial for a webhook. Nobody may keep it longer than the
// request lasts: it is over for what was derived from it then, and not for itself.
type Context struct {
	parent context.Context
	// received is what request.ReceivedTimestampFrom finds: from then on upstream counts how long a request may wait in a queue.
	received time.Time
	allowed  bool
	n        atomic.Int32 // how many values there are; what is below it does not change
	keys     [room]any
	values   [room]any

	mu       sync.Mutex
	deadline time.Time // the zero time: that of parent
	// timed is parent with the deadline; nil until somebody waits for the end.
	timed  context.Context
	cancel context.CancelFunc
}

// room is how many values a Context has room for. What does not find room is set by context.WithValue.
const room = 12

var _ context.Context = (*Context)(nil)

// New returns the Context of a request that was received just now. It ends with its parent, and has its values.
func New(parent context.Context) *Context { return &Context{parent: parent, received: time.Now()} }

// Set returns ctx with a value, as context.WithValue does. That is ctx itself where it is a Context which has had no value of that key.
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

// Allow notes that nothing keeps a request from what answers it. It and Allowed are for the goroutine that answers it.
func Allow(ctx context.Context) {
	if c, ok := ctx.Value((*Context)(nil)).(*Context); ok {
		c.allowed = true
	}
}

// Allowed tells whether Allow was called for the request.
func Allowed(ctx context.Context) bool {
	c, ok := ctx.Value((*Context)(nil)).(*Context)
	return ok && c.allowed
}

// Limit returns ctx with a limit of time, and what ends that, which the caller calls in any case. That is ctx itself where it is a Context
// without a limit. When its limit is ended, what was derived from it is cancelled, and it goes on as it was before: so that it still tells
// whether the client is there.
func Limit(ctx context.Context, timeout time.Duration) (limited context.Context, end func()) {
	c, ok := ctx.(*Context)
	if !ok || !c.limit(time.Now().Add(timeout)) {
		return context.WithTimeout(ctx, timeout)
	}
	return c, c.unlimited
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

// Done implements context.Context. From the first call on there is a timer.
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

// Value implements context.Context. Contexts that are derived from one with a limit find by it that they are to end with timed.
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
