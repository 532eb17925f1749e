package authz

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// index is built from objects, and a feed keeps it in step with them. Its methods are called by one goroutine at a time. Each call
// takes effect at once, so that no decision is made from a state that never existed: one in which a binding grants a permission
// that its role had lost before it was bound, for example.
type index interface {
	// replace replaces everything by these objects, with these later events applied.
	replace(objects []*resources.Object, events []*resources.Event) error
	// apply applies events, in the order of each type.
	apply(events []*resources.Event) error
}

// feed keeps an index in step with the store. A user of the index calls fresh first, which costs an atomic read while nothing
// has changed. The store reports a change through the Wake of its watches, before the Commit of the change returns.
type feed struct {
	store     resources.View
	resources []string
	index     index

	// woken counts the reports of changes; applied is the count up to which the index has all changes.
	woken, applied atomic.Int64
	changed        chan struct{}

	// mu guards now.
	mu sync.Mutex
	// now is the running catchUp, nil when there is none. Only it touches the index and the watches.
	now     *catchUp
	watches []resources.Watch // one for each resource; none: they have to be opened
}

// catchUp brings the index up to date once, for all requests that wait for it. It does not end with the request that started it.
type catchUp struct {
	// woken is the count up to which it brings the index.
	woken  int64
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // set before done is closed
}

func newFeed(store resources.View, i index, names ...string) *feed {
	f := &feed{store: store, resources: names, index: i, changed: make(chan struct{}, 1)}
	f.woken.Store(1)
	return f
}

// wake is called by the store, with its locks held.
func (f *feed) wake() {
	f.woken.Add(1)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// fresh waits until the index is up to date, but no longer than ctx lasts. Errors: those of resources.Reader and resources.Watcher, and
// that of ctx; the index is behind then.
func (f *feed) fresh(ctx context.Context) error {
	for woken := f.woken.Load(); f.applied.Load() < woken; {
		c := f.join(ctx)
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		// The error of a catchUp that began earlier may not concern the changes that this request has to see.
		if c.err != nil && c.woken >= woken {
			return c.err
		}
	}
	return nil
}

// join returns the running catchUp, or starts one.
func (f *feed) join(ctx context.Context) *catchUp {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f.now = &catchUp{woken: f.woken.Load(), cancel: cancel, done: make(chan struct{})}
		go f.catchUp(ctx, f.now)
	}
	return f.now
}

func (f *feed) catchUp(ctx context.Context, c *catchUp) {
	defer close(c.done)
	defer c.cancel()
	if c.err = f.follow(ctx); c.err != nil {
		// The history does not reach back to the revision of a watch, or the database does not answer. The objects can
		// still be read from the watch cache.
		c.err = f.load(ctx)
	}
	if c.err != nil {
		f.closeWatches()
	} else {
		f.applied.Store(c.woken)
	}
	f.mu.Lock()
	f.now = nil
	f.mu.Unlock()
}

// errUnopened says that the watches have not been opened.
var errUnopened = errors.New("nothing is followed")

func (f *feed) follow(ctx context.Context) error {
	if f.watches == nil {
		return errUnopened
	}
	events, err := f.news(ctx)
	if err != nil || len(events) == 0 {
		return err
	}
	return f.index.apply(events)
}

// news takes the events of all watches, until none has any more: together they are then the state of all types at one
// moment, the beginning of the last round.
func (f *feed) news(ctx context.Context) (all []*resources.Event, err error) {
	const page = 256
	for quiet := false; !quiet; {
		quiet = true
		for _, w := range f.watches {
			events, _, err := w.Next(ctx, page)
			if err != nil {
				return nil, err
			}
			quiet = quiet && len(events) == 0
			all = append(all, events...)
		}
	}
	return all, nil
}

// load reads all objects, and opens watches for later changes.
func (f *feed) load(ctx context.Context) error {
	f.closeWatches()
	var objects []*resources.Object
	for _, name := range f.resources {
		all, err := f.store.Snapshot(ctx, name, resources.At{Match: resources.Any})
		if err != nil {
			return err
		}
		w, err := f.store.Watch(ctx, resources.WatchOptions{Resource: name, After: all.Revision(), Wake: f.wake})
		if err != nil {
			return err
		}
		f.watches = append(f.watches, w)
		all.Ascend("", "", func(o *resources.Object) bool {
			objects = append(objects, o)
			return true
		})
	}
	events, err := f.news(ctx)
	if err != nil {
		return err
	}
	return f.index.replace(objects, events)
}

func (f *feed) closeWatches() {
	for _, w := range f.watches {
		w.Close()
	}
	f.watches = nil
}

// pause is how long run waits after an error.
const pause = time.Second

// run brings the index up to date after changes even without requests, until ctx ends, so that it does not fall behind the
// history that the store has in memory.
func (f *feed) run(ctx context.Context, logger *slog.Logger) {
	defer f.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		}
		err := f.fresh(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, resources.ErrClosed) {
			continue
		}
		logger.Warn("changes of roles and bindings cannot be followed, trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			f.wake()
		}
	}
}

// close closes the watches, and cancels a running catchUp. A later call of fresh reads everything anew.
func (f *feed) close() {
	for {
		f.mu.Lock()
		c := f.now
		if c == nil {
			break
		}
		f.mu.Unlock()
		c.cancel()
		<-c.done
	}
	defer f.mu.Unlock()
	f.closeWatches()
	f.wake()
}
