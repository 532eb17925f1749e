package controlplane

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// chore is something that the server keeps right by itself: kube-apiserver has a loop for each, which looks every ten
// seconds, minute or three; here it is done when something changes, and nothing runs when nothing does.
type chore struct {
	// name says in the log what is not looked after when something is wrong.
	name string
	// follow are the objects whose changes may make the chore necessary: of these, Resource, Namespace and Name count.
	follow []resources.WatchOptions
	// changed, when set, returns a channel that is closed when something else has made the chore necessary.
	changed func() <-chan struct{}
	// begin, when set, is called when the objects begin to be followed, at first and anew after an error.
	begin func()
	// do puts right what is not. events are what has happened since the last time; nil: anything may have. It returns when
	// to look at everything without an event; 0 for never. What others do at the same time must not make it fail.
	do func(ctx context.Context, events []*resources.Event) (again time.Duration, err error)
	// end, when set, is called when the chore is done no more. Its context has ended, unless the store was closed.
	end func(ctx context.Context)
	// longest is how long a chore that fails again and again waits at most before it is tried once more; 0: longestPause.
	longest time.Duration
}

// A chore that fails is tried again after a pause, which is doubled from the first to the last.
const (
	shortestPause = time.Second
	longestPause  = time.Minute
)

// keep does a chore until ctx ends or the store is closed; what fails is tried again, later and later.
func (p *Plane) keep(ctx context.Context, c *chore) {
	if c.end != nil {
		defer c.end(ctx)
	}
	longest := cmp.Or(c.longest, longestPause)
	pause := shortestPause
	for {
		began := time.Now()
		err := p.follow(ctx, c)
		if over(ctx, err) {
			return
		}
		if time.Since(began) > longest {
			pause = shortestPause
		}
		p.Logger.Warn("something is not looked after for a moment", "what", c.name, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// over: nothing further is to be done, now or later.
func over(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, resources.ErrClosed)
}

// follow does a chore whenever it is necessary, until an error.
func (p *Plane) follow(ctx context.Context, c *chore) error {
	woken := make(chan struct{}, 1)
	watches, err := openWatches(ctx, p.Store, c.follow, woken)
	defer func() {
		for _, w := range watches {
			w.Close()
		}
	}()
	if err != nil {
		return err
	}
	if c.begin != nil {
		c.begin()
	}
	var events []*resources.Event // none: what happened before the watches began is not known
	var changed <-chan struct{}
	for {
		if c.changed != nil {
			next := c.changed() // before looking, so that nothing is missed in between
			if closed(changed) {
				events = nil // it came together with the events
			}
			changed = next
		}
		again, err := c.do(ctx, events)
		if err != nil {
			return err
		}
		if events, err = await(ctx, watches, woken, changed, again); err != nil {
			return err
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false // a nil channel as well
	}
}

// openWatches follows objects from now on. A watch that has something to tell puts a value into woken, unless one is there.
func openWatches(ctx context.Context, store resources.View, follow []resources.WatchOptions, woken chan<- struct{}) (watches []resources.Watch, err error) {
	for _, o := range follow {
		now, err := store.Snapshot(ctx, o.Resource, resources.At{Match: resources.MostRecent})
		if err != nil {
			return watches, err
		}
		o.After, o.Wake = now.Revision(), func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		}
		w, err := store.Watch(ctx, o)
		if err != nil {
			return watches, err
		}
		watches = append(watches, w)
	}
	return watches, nil
}

// await returns what has happened, at least one event; nil when there is another reason to look at everything.
func await(ctx context.Context, watches []resources.Watch, woken, changed <-chan struct{}, again time.Duration) ([]*resources.Event, error) {
	var due <-chan time.Time
	if again > 0 {
		timer := time.NewTimer(again)
		defer timer.Stop()
		due = timer.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-woken:
		case <-changed:
			return nil, nil
		case <-due:
			return nil, nil
		}
		if events, err := takeAll(ctx, watches); err != nil || len(events) > 0 {
			return events, err
		}
	}
}

// takeAll takes all events from the watches.
func takeAll(ctx context.Context, watches []resources.Watch) (all []*resources.Event, err error) {
	for _, w := range watches {
		for {
			events, _, err := w.Next(ctx, 100)
			if err != nil {
				return nil, err
			}
			if len(events) == 0 {
				break
			}
			all = append(all, events...)
		}
	}
	return all, nil
}
