package handlers

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Later is what is still to be done about a request when it is over. Who answers requests does most of that when the handler returns.
// But a watch may go on without its handler (watch_sequel.go), where the request has a Later; then it is done when the watch has ended.
// A Later is the request's goroutine's until the handler has returned.
type Later struct {
	// Began is when the request came.
	Began time.Time

	goesOn bool
	broken bool // the handler did not return as it was to
	ends   []func(cause any)
}

type laterKey struct{}

// WithLater has a watch go on without its handler, where it can.
func WithLater(ctx context.Context, l *Later) context.Context {
	return requestctx.Set(ctx, laterKey{}, l)
}

// beganOf is when a request came, if that was noted.
func beganOf(ctx context.Context) time.Time {
	if l, _ := ctx.Value(laterKey{}).(*Later); l != nil && !l.Began.IsZero() {
		return l.Began
	}
	return time.Now()
}

// LaterOf returns that of a request whose watch goes on, or nil: then it is over when its handler has returned.
func LaterOf(ctx context.Context) *Later {
	if l, _ := ctx.Value(laterKey{}).(*Later); l != nil && l.goesOn {
		return l
	}
	return nil
}

// Do calls f at the end; at once if l is nil. Those who come first are called first. cause is that of a panic, or nil.
func (l *Later) Do(f func(cause any)) {
	if l == nil {
		f(nil)
		return
	}
	l.ends = append(l.ends, f)
}

// Break ends the watch before it goes on.
func (l *Later) Break() {
	if l != nil {
		l.broken = true
	}
}

// over calls what was to be called. One that panics keeps no other from being called.
func (l *Later) over(cause any) {
	if len(l.ends) == 0 {
		return
	}
	f := l.ends[0]
	l.ends = l.ends[1:]
	defer l.over(cause)
	f(cause)
}
