package handlers

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Later has the functions to call at the end of a request. Middleware normally does its work when the handler returns. But a watch may outlive its
// handler (watch_sequel.go) if the request has a Later; then the functions are called when the watch has ended. Only the request's goroutine uses a
// Later until the handler has returned.
type Later struct {
	// Began is when the request arrived.
	Began time.Time

	goesOn bool
	broken bool // the handler has failed
	ends   []func(cause any)
}

type laterKey struct{}

// WithLater lets a watch outlive its handler, if it can.
func WithLater(ctx context.Context, l *Later) context.Context {
	return requestctx.Set(ctx, laterKey{}, l)
}

// beganOf is when a request arrived, if that was noted.
func beganOf(ctx context.Context) time.Time {
	if l, _ := ctx.Value(laterKey{}).(*Later); l != nil && !l.Began.IsZero() {
		return l.Began
	}
	return time.Now()
}

// LaterOf returns the Later of a request whose watch outlives its handler, and otherwise nil: the request ends with its handler.
func LaterOf(ctx context.Context) *Later {
	if l, _ := ctx.Value(laterKey{}).(*Later); l != nil && l.goesOn {
		return l
	}
	return nil
}

// Do calls f at the end; at once if l is nil. Functions are called in the order of their registration. cause is the value of a panic, or nil.
func (l *Later) Do(f func(cause any)) {
	if l == nil {
		f(nil)
		return
	}
	l.ends = append(l.ends, f)
}

// Break ends the watch with its handler.
func (l *Later) Break() {
	if l != nil {
		l.broken = true
	}
}

// over calls the functions. If one of them panics, the others are called all the same.
func (l *Later) over(cause any) {
	if len(l.ends) == 0 {
		return
	}
	f := l.ends[0]
	l.ends = l.ends[1:]
	defer l.over(cause)
	f(cause)
}
