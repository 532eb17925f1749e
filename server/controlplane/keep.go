package controlplane

import (
	"context"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// chore is something that the server keeps right by itself: kube-apiserver has a loop for each, which looks every ten
// seconds, minute or three; here it is done when something changes, and nothing runs when nothing does.
type chore struct {
	// name says in the log what is not looked after when something is wrong.
	name string
	// follow are the objects whose changes may make the chore necessary; see follow.Source.
	follow []resources.Key
	// changed, when set, returns a channel that is closed when something else has made the chore necessary.
	changed func() <-chan struct{}
	// begin, when set, is called when the objects begin to be followed, at first and anew after an error.
	begin func()
	// do puts right what is not. events are what has happened since the last time; nil: anything may have. It returns when
	// to look at everything without an event; 0 for never. What others do at the same time must not make it fail.
	do func(ctx context.Context, events []*resources.Event) (again time.Duration, err error)
	// end, when set, is called when the chore is done no more. Its context has ended, unless the store was closed.
	end func(ctx context.Context)
	// sparing: do looks at everything, whatever has happened. After each time the chore rests: changes gather meanwhile, and do not cost
	// the whole of it each.
	sparing bool
	// longest is how long a chore that fails again and again waits at most before it is tried once more; 0: a minute.
	longest time.Duration
}

// keep does a chore until ctx ends or the store is closed; what fails is tried again, later and later.
func (p *Plane) keep(ctx context.Context, c *chore) {
	if c.end != nil {
		defer c.end(ctx)
	}
	follow.Run(ctx, follow.Source{Store: p.Store, Logger: p.Logger, Name: c.name, Objects: c.follow, Changed: c.changed, Longest: c.longest},
		&keeping{chore: c})
}

// keeping is a chore that is being kept: it gathers the events until all are there.
type keeping struct {
	*chore
	events []*resources.Event
	// many: there were more than are worth remembering.
	many bool
	// rested is from when on a chore that is sparing may be done again.
	rested time.Time
}

// A chore that is sparing rests for restTimes as long as it took, and for longestRest at most.
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
		events = nil // anything may have happened
	}
	k.events, k.many = nil, false
	return k.do(ctx, events)
}

// rest waits until the chore may be done again, unless ctx ends first.
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
