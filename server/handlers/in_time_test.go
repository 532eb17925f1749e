package handlers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// A write that fails after its time is over, or after its client has left, fails for that reason, whatever a step makes of it. A write that is
// stored, and an error of reading the body, stay as they are.
func TestWritesWhoseTimeIsOver(t *testing.T) {
	const over = "Timeout: request did not complete within requested timeout - "
	failed := errors.New("failed calling webhook")
	late := func(_ *Handlers, q *request) error {
		<-q.ctx.Done()
		return failed
	}
	leave := func(answer func(*request) error) handler {
		return func(_ *Handlers, q *request) error {
			q.ctx.Value(leaves{}).(context.CancelFunc)()
			return answer(q)
		}
	}
	for name, c := range map[string]struct {
		write handler
		want  string
	}{
		"late":              {bounded(late), over + "context deadline exceeded"},
		"left":              {bounded(leave(func(*request) error { return failed })), over + "context canceled"},
		"left a collection": {ended(leave(func(*request) error { return failed })), over + "context canceled"},
		"in time":           {bounded(func(*Handlers, *request) error { return failed }), failed.Error()},
		"stored":            {bounded(leave(func(q *request) error { q.written = true; return failed })), failed.Error()},
		"unread":            {bounded(leave(func(q *request) error { q.sent.err = failed; return failed })), failed.Error()},
		"answered":          {bounded(leave(func(*request) error { return nil })), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				got := ""
				if err := c.write(nil, &request{ctx: context.WithValue(ctx, leaves{}, cancel), sent: &sentBody{}}); err != nil {
					got = err.Error()
				}
				if got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// leaves is the key of the function that makes the client leave.
type leaves struct{}
