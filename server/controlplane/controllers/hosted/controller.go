package hosted

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/resources"
)

// Followed is a type of whose objects a controller is told.
type Followed struct {
	// Resource is the type, as in resources.Key.
	Resource string
	// Shows says of which objects the controller's handlers are told; nil: of all. It is called for every change of the type, also
	// with the state that was deleted, and is to say the same of an object for as long as that exists.
	Shows func(*resources.Object) bool
	// Needs says for which objects the controller runs; nil: for none.
	Needs func(*resources.Object) bool
}

// Options say what a Controller runs, and on what.
type Options struct {
	// Name is the controller's, for the log.
	Name    string
	Store   resources.View
	Logger  *slog.Logger
	Follows []Followed
	// Always: it runs whatever there is.
	Always bool
	// Linger is for how long it still runs when there is nothing to do: what it has begun is finished, and the next object costs no start.
	Linger time.Duration
	// Run makes the controller, of the informers, and runs it until ctx ends. When it returns before, with an error or to begin
	// anew, it is called again, after an error later and later.
	Run func(ctx context.Context, informers *Informers) error
}

// Controller runs a controller while there is something for it to do. The methods but Work are called by one goroutine.
type Controller struct {
	Options

	mu sync.Mutex
	// needing are the objects for which it runs.
	needing map[resources.Key]struct{}
	// began goes up when the controller is to begin, and to begin anew.
	began int
	// opened: whatever changes from now on of what it follows is observed.
	opened bool
	// running is told of changes, while the controller runs.
	running *Informers
	// woken has a value when needing or began have changed.
	woken chan struct{}
}

// How long it takes until a controller that has failed is begun again: doubled from the first to the last.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// New returns a controller that does not run yet.
func New(o Options) *Controller {
	return &Controller{Options: o, needing: map[resources.Key]struct{}{}, woken: make(chan struct{}, 1)}
}

// Resources are the types of which Observe is to be told.
func (c *Controller) Resources() []string {
	var all []string
	for _, f := range c.Follows {
		all = append(all, f.Resource)
	}
	return all
}

// Forget is the beginning, and comes again when history was lost: the controller begins anew, too.
func (c *Controller) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.needing)
	c.began++
	c.opened = false
	c.wake()
}

// Opened tells that since the last Forget all types that it follows were opened: the controller may run. Were it to run before, an
// object that it makes, and that is deleted before the type is opened, would be gone without a word.
func (c *Controller) Opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened {
		c.opened = true
		c.wake()
	}
}

// Observe tells of a change.
func (c *Controller) Observe(e *resources.Event) {
	i := slices.IndexFunc(c.Follows, func(f Followed) bool { return f.Resource == e.Object.Resource })
	if i < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if needs := c.Follows[i].Needs; needs != nil {
		before := len(c.needing)
		if e.Op != resources.Delete && needs(e.Object) {
			c.needing[e.Object.Key] = struct{}{}
		} else {
			delete(c.needing, e.Object.Key)
		}
		if (before == 0) != (len(c.needing) == 0) {
			c.wake()
		}
	}
	if c.running != nil {
		c.running.tell(e)
	}
}

// Again tells handlers of an object that there is as if it were new, so that the controller looks at it once more; nothing, while it does
// not run: it looks at all when it begins.
func (c *Controller) Again(key resources.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil {
		c.running.again(key)
	}
}

func (c *Controller) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// wanted tells whether the controller is to run, and for which time it was begun.
func (c *Controller) wanted() (run bool, began int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened && (c.Always || len(c.needing) > 0), c.began
}

// Work runs the controller while it is wanted, until ctx ends.
func (c *Controller) Work(ctx context.Context) {
	for pause := firstPause; ; {
		run, began := c.wanted()
		switch {
		case !run:
			if !c.await(ctx) {
				return
			}
			continue
		case ctx.Err() != nil:
			return
		}
		err := c.once(ctx, began)
		if err == nil {
			pause = firstPause
			continue
		}
		c.Logger.Warn("controller failed and will begin again", "controller", c.Name, "wait", pause, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// once runs the controller until it is no longer wanted, is to begin anew, or returns.
func (c *Controller) once(ctx context.Context, began int) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	running = klog.NewContext(running, logr.FromSlogHandler(untilEnd{c.Logger.Handler(), running.Done()}).WithName(c.Name))
	informers := newInformers(c.Store, c.Follows)
	c.tellTo(informers)
	defer c.tellTo(nil)
	done := make(chan error, 1)
	go func() { done <- c.safely(running, informers) }()
	// end stops it. From before it stops it is told nothing.
	end := func() error {
		c.tellTo(nil)
		stop()
		return <-done
	}
	var idle <-chan time.Time // set while there is nothing to do
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return end()
		case <-idle:
			return end()
		case <-c.woken:
		}
		switch run, now := c.wanted(); {
		case now != began:
			return end()
		case run:
			idle = nil
		case idle == nil:
			idle = time.After(c.Linger)
		}
	}
}

func (c *Controller) tellTo(informers *Informers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = informers
}

// safely makes an error of a panic.
func (c *Controller) safely(ctx context.Context, informers *Informers) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Run(ctx, informers)
}

// await waits until something has changed; false when ctx ends first.
func (c *Controller) await(ctx context.Context) bool {
	select {
	case <-c.woken:
		return true
	case <-ctx.Done():
		return false
	}
}
