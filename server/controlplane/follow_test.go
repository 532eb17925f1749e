package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// What makes a chore necessary besides events is noticed, also when it comes together with some.
func TestChoreOfEventsAndMore(t *testing.T) {
	done := errors.New("done")
	for i := range 30 {
		rows := newRows(t)
		key := resources.Key{Resource: membersResource, Name: "a"}
		changed := make(chan struct{})
		began, calls := 0, []bool{} // whether anything may have happened
		c := &chore{name: "a test", follow: []resources.WatchOptions{{Resource: membersResource}}, begin: func() { began++ },
			changed: func() <-chan struct{} { return changed }}
		c.do = func(ctx context.Context, events []*resources.Event) (time.Duration, error) {
			calls = append(calls, events == nil)
			switch {
			case len(calls) == 1:
				if _, err := rows.Create(ctx, key, memberKind, 1, 0); err != nil {
					return 0, err
				}
				was := changed
				changed = make(chan struct{})
				close(was)
				return 0, nil
			case events == nil:
				return 0, done
			}
			return 0, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		p := New(Config{Store: rows.Reader.(resources.View), Logger: slog.New(slog.DiscardHandler)})
		err := p.follow(ctx, c)
		cancel()
		if !errors.Is(err, done) || began != 1 || !slices.Contains(calls[1:], true) {
			t.Fatalf("round %d: %v, begun %d times, %v", i, err, began, calls)
		}
	}
}

// A chore ends with its context, and is told so once.
func TestChoreEnds(t *testing.T) {
	rows := newRows(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := 0
	New(Config{Store: rows.Reader.(resources.View), Logger: slog.New(slog.DiscardHandler)}).keep(ctx, &chore{name: "a test",
		do:  func(context.Context, []*resources.Event) (time.Duration, error) { stop(); return 0, nil },
		end: func(context.Context) { ended++ }})
	if ended != 1 {
		t.Errorf("ended %d times", ended)
	}
}
