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

// Followed is a type that a controller follows.
type Followed struct {
	// Resource is the type, as in resources.Key.
	Resource string
	// Shows selects the objects that the controller's handlers are told of; nil: all. It is called for every change of the type,
	// also with the state of a deleted object, and must return the same for an object as long as it exists.
	Shows func(*resources.Object) bool
	// Needs selects the objects for which the controller runs; nil: none.
	Needs func(*resources.Object) bool
}

// Options say what a Controller runs, and on which store.
type Options struct {
	// Name is the name of the controller in the log.
	Name    string
	Store   resources.View
	Logger  *slog.Logger
	Follows []Followed
	// Always: the controller runs whether or not there are objects for it.
	Always bool
	// Linger is how long it keeps running when there is nothing to do: it finishes its work, and the next object does not cost a start.
	Linger time.Duration
	// Run creates the controller with the informers, and runs it until ctx ends. When it returns earlier, with an error or to
	// restart, it is called again; after errors, at growing intervals.
	Run func(ctx context.Context, informers *Informers) error
}

// Controller runs a controller while there is work for it. All methods except Work are called by one goroutine.
type Controller struct {
	Options

	mu sync.Mutex
	// needing are the objects for which it runs.
	needing map[resources.Key]struct{}
	// began increases when the controller has to start, and to restart.
	began int
	// opened: every later change of the types that it follows is observed.
	opened bool
	// running is told of changes while the controller runs.
	running *Informers
	// woken has a value when needing or began have changed.
	woken chan struct{}
}

// The pause before a failed controller restarts doubles from firstPause to the last value.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// New returns a controller that does not run yet.
func New(o Options) *Controller {
	return &Controller{Options: o, needing: map[resources.Key]struct{}{}, woken: make(chan struct{}, 1)}
}

// Resources returns the types whose changes Observe has to be told of.
func (c *Controller) Resources() []string {
	var all []string
	for _, f := range c.Follows {
		all = append(all, f.Resource)
	}
	return all
}

// Forget marks a new beginning: it is called at the start, and again after history was lost. The controller restarts, too.
func (c *Controller) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.needing)
	c.began++
	c.opened = false
	c.wake()
}

// Opened says that all types that the controller follows were opened since the last Forget: the controller may run. If it ran
// earlier, the deletion of an object that it had created could be missed before the type is opened.
func (c *Controller) Opened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened {
		c.opened = true
		c.wake()
	}
}

// Observe handles a change.
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

// Again tells handlers of an existing object as if it were new, so that the controller examines it once more. It does nothing while the
// controller does not run, which examines all objects when it starts.
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

// wanted tells whether the controller has to run, and returns the number of its start.
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

// once runs the controller until it is no longer wanted, has to restart, or returns.
func (c *Controller) once(ctx context.Context, began int) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	running = klog.NewContext(running, logr.FromSlogHandler(untilEnd{c.Logger.Handler(), running.Done()}).WithName(c.Name))
	informers := newInformers(c.Store, c.Follows)
	c.tellTo(informers)
	defer c.tellTo(nil)
	done := make(chan error, 1)
	go func() { done <- c.safely(running, informers) }()
	// end stops the controller, and stops telling it of changes before.
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

// safely turns a panic into an error.
func (c *Controller) safely(ctx context.Context, informers *Informers) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.Run(ctx, informers)
}

// await waits for a change; false when ctx ends first.
func (c *Controller) await(ctx context.Context) bool {
	select {
	case <-c.woken:
		return true
	case <-ctx.Done():
		return false
	}
}
