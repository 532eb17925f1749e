package controllers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// observer is shown all changes, by one goroutine.
type observer interface {
	// forget is the beginning: after it, what exists is shown as if it were created now, and then every change.
	forget()
	// observe shows a change. Those of one type come in their order, those of several nearly so.
	observe(e *resources.Event)
	// turn comes after every round. quiet: all that has happened was shown. Otherwise the next round is to come soon,
	// and will show at least what had happened before anything of the last was visible.
	turn(quiet bool)
	// typesChanged tells that types were added or removed.
	typesChanged()
}

// feed shows the changes of all types to observers. A watch that has something to tell puts its type on a list, so that
// a change costs the same however many types there are.
type feed struct {
	registry  *resources.Registry
	store     resources.View
	logger    *slog.Logger
	observers []observer

	followed map[string]*follower // by resource; only run's goroutine uses it

	mu    sync.Mutex
	ready []*follower
	woken chan struct{}
}

// follower is the watch of a type.
type follower struct {
	watch resources.Watch
	// closed: the type is gone, and the watch with it. Only run's goroutine uses it.
	closed bool
	// listed says that it is in feed.ready. Guarded by feed.mu.
	listed bool
}

// feedPause is how long the feed waits before it begins anew after an error of the store.
const feedPause = time.Second

// feedMax is how many events are taken from a watch at a time.
const feedMax = 1000

// run follows until ctx ends or the store is closed.
func (f *feed) run(ctx context.Context) {
	for {
		err := f.follow(ctx)
		if ctx.Err() != nil || errors.Is(err, resources.ErrClosed) {
			return
		}
		f.logger.Warn("controllers begin anew", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(feedPause):
		}
	}
}

// follow shows everything from the beginning, until an error.
func (f *feed) follow(ctx context.Context) error {
	defer f.close()
	f.followed = map[string]*follower{}
	for _, o := range f.observers {
		o.forget()
	}
	catalog := f.registry.Catalog()
	if err := f.adopt(ctx, catalog); err != nil {
		return err
	}
	for {
		if err := f.drain(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.woken:
			continue
		case <-catalog.Replaced():
		}
		catalog = f.registry.Catalog()
		if err := f.adopt(ctx, catalog); err != nil {
			return err
		}
		for _, o := range f.observers {
			o.typesChanged()
		}
	}
}

// adopt begins to follow the types that are new in a catalog, and ends with those that are no longer there.
func (f *feed) adopt(ctx context.Context, catalog *resources.Catalog) error {
	for t := range catalog.Types {
		if _, ok := f.followed[t.ResourceName()]; ok || !slices.Contains(t.Verbs(), "delete") {
			continue
		}
		if err := f.begin(ctx, t.ResourceName()); err != nil {
			return err
		}
	}
	for resource, w := range f.followed {
		if _, ok := catalog.Type(resource); ok {
			continue
		}
		// What was deleted on the way to the type's removal is still to be told.
		if err := f.show(ctx, w); err != nil {
			return err
		}
		w.watch.Close()
		w.closed = true
		delete(f.followed, resource)
	}
	return nil
}

// begin shows the objects of a type, and opens its watch from there.
func (f *feed) begin(ctx context.Context, resource string) error {
	s, err := f.store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	w := &follower{}
	w.watch, err = f.store.Watch(ctx, resources.WatchOptions{Resource: resource, After: s.Revision(), Wake: func() { f.wake(w) }})
	if err != nil {
		return err
	}
	f.followed[resource] = w
	s.Ascend("", "", func(o *resources.Object) bool {
		f.observe(&resources.Event{Op: resources.Create, Revision: o.Revision, Object: o})
		return ctx.Err() == nil
	})
	return ctx.Err()
}

// wake puts a watch on the list. The store calls it, under its locks.
func (f *feed) wake(w *follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.listed {
		return
	}
	w.listed = true
	f.ready = append(f.ready, w)
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// take empties the list.
func (f *feed) take() []*follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	ready := f.ready
	f.ready = nil
	for _, w := range ready {
		w.listed = false
	}
	return ready
}

// drain shows what has happened, in rounds, until no watch has more.
func (f *feed) drain(ctx context.Context) error {
	for {
		ready := f.take()
		for _, w := range ready {
			if err := f.show(ctx, w); err != nil {
				return err
			}
		}
		for _, o := range f.observers {
			o.turn(len(ready) == 0)
		}
		if len(ready) == 0 {
			return nil
		}
	}
}

// show shows what a watch has to tell.
func (f *feed) show(ctx context.Context, w *follower) error {
	for !w.closed {
		events, _, err := w.watch.Next(ctx, feedMax)
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			f.observe(e)
		}
	}
	return nil
}

func (f *feed) observe(e *resources.Event) {
	for _, o := range f.observers {
		o.observe(e)
	}
}

func (f *feed) close() {
	for _, w := range f.followed {
		w.watch.Close()
	}
	f.take()
}
