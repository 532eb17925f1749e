package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// newChoreTest returns a plane that has only a store, rows in it, and a context that bounds the test.
func newChoreTest(t *testing.T) (*Plane, *resources.Rows, context.Context) {
	t.Helper()
	rows := newRows(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return New(Config{Store: rows.Reader.(resources.View), Logger: slog.New(slog.DiscardHandler)}), rows, ctx
}

// A chore notices a change besides events, even if it coincides with some.
func TestChoreOfEventsAndMore(t *testing.T) {
	for i := range 30 {
		p, rows, ctx := newChoreTest(t)
		ctx, stop := context.WithCancel(ctx)
		changed := make(chan struct{})
		began, calls := 0, []bool{} // whether any change was possible
		c := &chore{name: "a test", follow: []resources.Key{{Resource: MembersResource}}, begin: func() { began++ },
			changed: func() <-chan struct{} { return changed }}
		c.do = func(ctx context.Context, events []*resources.Event) (time.Duration, error) {
			calls = append(calls, events == nil)
			if len(calls) > 1 {
				if events == nil {
					stop()
				}
				return 0, nil
			}
			if _, err := rows.Create(ctx, resources.Key{Resource: MembersResource, Name: "a"}, memberKind, 1, 0); err != nil {
				return 0, err
			}
			was := changed
			changed = make(chan struct{})
			close(was)
			return 0, nil
		}
		p.keep(ctx, c)
		if began != 1 || !slices.Contains(calls[1:], true) {
			t.Fatalf("round %d: begun %d times, %v", i, began, calls)
		}
		stop()
	}
}

// A chore gets every event; when there are too many to keep, it is told to examine everything.
func TestChoreOfMany(t *testing.T) {
	p, rows, ctx := newChoreTest(t)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	create := func(names ...string) {
		for _, name := range names {
			if _, err := rows.Create(ctx, resources.Key{Resource: MembersResource, Name: name}, memberKind, 1, 0); err != nil {
				t.Error(err)
			}
		}
	}
	var seen []int
	p.keep(ctx, &chore{name: "a test", follow: []resources.Key{{Resource: MembersResource}},
		do: func(_ context.Context, events []*resources.Event) (time.Duration, error) {
			switch seen = append(seen, len(events)); len(seen) {
			case 1:
				create("a", "b")
			case 2:
				for i := range 1100 {
					create("many-" + string(rune('a'+i/100)) + string(rune('a'+i%100/10)) + string(rune('a'+i%10)))
				}
			default:
				stop()
			}
			return 0, nil
		}})
	if !slices.Equal(seen, []int{0, 2, 0}) {
		t.Errorf("events: %v", seen)
	}
}

// A chore that examines everything rests. By the clock of the bubble it takes a twentieth of the time at most, and is never delayed for long.
func TestSparingChoreRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, takes := time.Now(), time.Millisecond
		var began []time.Duration
		k := &keeping{chore: &chore{sparing: true, do: func(context.Context, []*resources.Event) (time.Duration, error) {
			began = append(began, time.Since(start))
			time.Sleep(takes)
			return 0, nil
		}}}
		turn := func(ctx context.Context) error {
			_, err := k.Turn(ctx, follow.Turn{Quiet: true})
			return err
		}
		for range 3 {
			if err := turn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		takes = time.Second
		if err := turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		const ms = time.Millisecond
		if want := []time.Duration{0, 21 * ms, 42 * ms, 63 * ms, 63*ms + time.Second + 250*ms}; !slices.Equal(began, want) {
			t.Errorf("the chore was done at %v, want %v", began, want)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := turn(ctx); !errors.Is(err, context.Canceled) || len(began) != 5 {
			t.Errorf("a chore whose context has ended while it rests: %v, done %d times", err, len(began))
		}
	})
}

// A chore ends with its context, and its end is called once.
func TestChoreEnds(t *testing.T) {
	p, _, ctx := newChoreTest(t)
	ctx, stop := context.WithCancel(ctx)
	ended := 0
	p.keep(ctx, &chore{name: "a test",
		do:  func(context.Context, []*resources.Event) (time.Duration, error) { stop(); return 0, nil },
		end: func(context.Context) { ended++ }})
	if ended != 1 {
		t.Errorf("ended %d times", ended)
	}
}
