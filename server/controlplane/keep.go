package controlplane

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// chore is a piece of maintenance that the server does unasked. kube-apiserver runs a loop for each, at intervals of
// ten seconds, one minute or three; here a chore runs when objects change, and nothing runs while nothing changes,
// except where an Event about something wrong has to remain (reporter).
type chore struct {
	// name says in the log which work is not done when an error occurs.
	name string
	// follow are the objects whose changes may make the chore necessary; see follow.Source.
	follow []resources.Key
	// changed, when set, returns a channel that is closed when another change has made the chore necessary.
	changed func() <-chan struct{}
	// begin, when set, is called when following the objects begins, at first and again after an error.
	begin func()
	// do makes the repairs. events are the changes since the last call; nil: any change is possible. It returns after
	// which time to run again without an event; 0 for never. Concurrent work of other servers must not make it fail.
	do func(ctx context.Context, events []*resources.Event) (again time.Duration, err error)
	// end, when set, is called when the chore has ended. Its context has ended, unless the store was closed.
	end func(ctx context.Context)
	// sparing: do examines everything, whichever events there are. The chore rests after each run, so that changes gather meanwhile and
	// do not cost a full run each.
	sparing bool
	// longest bounds the wait before a chore that fails repeatedly is retried; 0: a minute.
	longest time.Duration
}

// keep runs a chore until ctx ends or the store is closed. It retries a chore that fails, at growing intervals.
func (p *Plane) keep(ctx context.Context, c *chore) {
	if c.end != nil {
		defer c.end(ctx)
	}
	follow.Run(ctx, follow.Source{Store: p.Store, Logger: p.Logger, Name: c.name, Objects: c.follow, Changed: c.changed, Longest: c.longest},
		&keeping{chore: c})
}

// keeping is a chore that runs: it gathers events until the follower is up to date.
type keeping struct {
	*chore
	events []*resources.Event
	// many: the events were too many to keep.
	many bool
	// rested is the time from which a sparing chore may run again.
	rested time.Time
}

// A sparing chore rests for restTimes as long as its last run took, and for longestRest at most.
const (
	restTimes   = 20
	longestRest = 250 * time.Millisecond
)

// Begin implements follow.Handler.
func (k *keeping) Begin() {
	k.events, k.many = nil, false
	if k.begin != nil {
		k.begin()
	}
}

// Observe implements follow.Handler.
func (k *keeping) Observe(events []*resources.Event) {
	if k.many = k.many || len(k.events)+len(events) > follow.PageSize; k.many {
		k.events = nil
		return
	}
	k.events = append(k.events, events...)
}

// Turn implements follow.Handler.
func (k *keeping) Turn(ctx context.Context, t follow.Turn) (again time.Duration, err error) {
	if !t.Quiet {
		return 0, nil
	}
	if !k.rest(ctx) {
		return 0, ctx.Err()
	}
	began := time.Now()
	defer func() { k.rested = time.Now().Add(min(restTimes*time.Since(began), longestRest)) }()
	events := k.events
	if t.Whole || k.many {
		events = nil // any change is possible
	}
	k.events, k.many = nil, false
	return k.do(ctx, events)
}

// rest waits until the chore may run again; false: ctx ended first.
func (k *keeping) rest(ctx context.Context) bool {
	left := time.Until(k.rested)
	if !k.sparing || left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
