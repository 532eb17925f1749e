package follow

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// stream is what Run has under way.
type stream struct {
	Source
	handler Handler
	ready   *ready

	// begun: Begin was called, and watches are what has been opened since.
	begun   bool
	watches map[resources.Key]*cursor
	// followed: all watches are open that there are to be, and with a registry, by the types of catalog.
	followed bool
	catalog  *resources.Catalog
	changed  <-chan struct{}
	// unread is Turn.Unread, and why is by what errors. They are read again at retryAt, retryPause after the last time.
	unread     []string
	why        []error
	retryAt    time.Time
	retryPause time.Duration
	said       complaint

	// left are the cursors of a round that have still to tell.
	left []*cursor
	// told: there is something new since the last quiet turn. whole is Turn.Whole.
	told, whole bool
	// due is when to look without an event; zero for never.
	due time.Time
}

// cursor is an open watch.
type cursor struct {
	watch resources.Watch
	kind  schema.GroupKind // of the objects, where a type is followed
	// closed: its type is gone.
	closed bool
	// listed says that it is in ready.cursors, whose mutex guards it.
	listed bool
}

// round tells what there is to tell. quiet: there is nothing more.
func (f *stream) round(ctx context.Context) (quiet bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	f.readAgain(ctx)
	f.begin()
	f.lookForChange()
	if err := f.adopt(ctx); err != nil {
		return false, err
	}
	if len(f.left) == 0 {
		f.left = f.ready.take()
	}
	quiet = len(f.left) == 0
	for len(f.left) > 0 {
		if err := f.tell(ctx, f.left[0]); err != nil {
			return false, err
		}
		f.left = f.left[1:]
	}
	return quiet, f.turn(ctx, quiet)
}

// begin is the beginning, unless it was.
func (f *stream) begin() {
	if f.begun {
		return
	}
	f.begun, f.whole, f.due, f.watches = true, true, time.Time{}, map[resources.Key]*cursor{}
	f.handler.Begin()
}

// lookForChange takes the channel for the next change before anything is looked at, so that none is missed.
func (f *stream) lookForChange() {
	if f.Changed == nil {
		return
	}
	select {
	case <-f.changed:
		f.whole = true
	default: // a nil channel as well
	}
	f.changed = f.Changed()
}

// turn has the handler do its work, unless there is no reason to.
func (f *stream) turn(ctx context.Context, quiet bool) error {
	if !f.told && !f.whole {
		return nil
	}
	again, err := f.handler.Turn(ctx, Turn{Catalog: f.catalog, Quiet: quiet, Whole: f.whole, Unread: f.unread})
	if err != nil {
		f.whole = true
		return err
	}
	if !quiet {
		return nil
	}
	f.told, f.whole, f.due = false, false, time.Time{}
	if again > 0 {
		f.due = time.Now().Add(again)
	}
	return nil
}

// adopt opens the watches that are missing, and closes those of types that are gone.
func (f *stream) adopt(ctx context.Context) error {
	var catalog *resources.Catalog
	if f.Registry != nil {
		catalog = f.Registry.Catalog()
	}
	if f.followed && catalog == f.catalog {
		return nil
	}
	before, complete := f.catalog, f.followed
	f.followed = false
	if complete && before != nil && catalog != nil {
		if err := f.adoptChange(ctx, before, catalog); err != nil {
			return err
		}
		f.adopted(catalog)
		return nil
	}
	wanted := map[resources.Key]bool{}
	for _, key := range f.Objects {
		wanted[key] = true
		if f.watches[key] == nil {
			if err := f.open(ctx, key); err != nil {
				return err
			}
		}
	}
	if catalog != nil {
		if err := f.adoptTypes(ctx, catalog.Types, wanted); err != nil {
			return err
		}
	}
	for key, c := range f.watches {
		if !wanted[key] {
			if err := f.drop(ctx, key, c); err != nil {
				return err
			}
		}
	}
	f.adopted(catalog)
	return nil
}

// adopted notes that all that can be followed is.
func (f *stream) adopted(catalog *resources.Catalog) {
	f.followed, f.catalog, f.told = true, catalog, true
	if len(f.unread) == 0 {
		f.retryPause = 0
		return
	}
	if f.retryAt.Before(time.Now()) { // that something else changes does not put it off
		f.retryLater()
	}
	f.complain(errors.Join(f.why...))
}

// retryLater has the types that are left out read again later and later: whoever decrypts may log each attempt.
func (f *stream) retryLater() {
	f.retryPause = min(max(2*f.retryPause, f.Shortest), 10*f.Longest)
	f.retryAt = time.Now().Add(f.retryPause)
}

// readAgain has everything begin anew when a type can be read that was left out, is gone, or is followed since because it changed.
func (f *stream) readAgain(ctx context.Context) {
	if len(f.unread) == 0 || time.Now().Before(f.retryAt) {
		return
	}
	f.retryLater()
	catalog := f.Registry.Catalog()
	for _, resource := range f.unread {
		_, served := catalog.Type(resource)
		_, err := f.Store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err == nil || !served || f.watches[resources.Key{Resource: resource}] != nil {
			f.close()
			return
		}
	}
	f.complain(errors.Join(f.why...))
}

// leavesOut tells whether a type is left out that could not be opened: one object that is lost is not to keep all others from being looked
// after.
func (f *stream) leavesOut(resource string, err error) bool {
	var unreadable *resources.TransformError
	if !errors.As(err, &unreadable) {
		return false
	}
	if !slices.Contains(f.unread, resource) {
		f.unread, f.why = append(f.unread, resource), append(f.why, err)
	}
	return true
}

// adoptChange does the same for the groups that a change of the catalog has touched, where all was open before.
func (f *stream) adoptChange(ctx context.Context, before, after *resources.Catalog) error {
	gone, come := after.Since(before)
	wanted := map[resources.Key]bool{}
	for _, g := range come {
		if err := f.adoptTypes(ctx, g.Types, wanted); err != nil {
			return err
		}
	}
	for _, g := range gone {
		for t := range g.Types {
			key := resources.Key{Resource: t.ResourceName()}
			c := f.watches[key]
			if c == nil || wanted[key] || slices.Contains(f.Objects, key) {
				continue
			}
			if err := f.drop(ctx, key, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop closes a watch that is no longer wanted.
func (f *stream) drop(ctx context.Context, key resources.Key, c *cursor) error {
	// What was deleted on the way to the type's removal is still to be told.
	if err := f.tell(ctx, c); err != nil {
		return err
	}
	c.watch.Close()
	c.closed = true
	delete(f.watches, key)
	if h, ok := f.handler.(TypesHandler); ok {
		h.Closed(key.Resource, c.kind)
	}
	return nil
}

// adoptTypes opens the watches of types, and notes which are wanted.
func (f *stream) adoptTypes(ctx context.Context, types iter.Seq[*resources.Type], wanted map[resources.Key]bool) error {
	for t := range types {
		if f.Types != nil && !f.Types(t) {
			continue
		}
		key := resources.Key{Resource: t.ResourceName()}
		wanted[key] = true
		if f.watches[key] == nil {
			if err := f.open(ctx, key); f.leavesOut(key.Resource, err) {
				continue
			} else if err != nil {
				return err
			}
			if h, ok := f.handler.(TypesHandler); ok {
				h.Opened(key.Resource)
			}
		}
		f.watches[key].kind = schema.GroupKind{Group: t.Group, Kind: t.Kind}
	}
	return nil
}

// open follows objects from now on. Until it succeeds nothing of them was told.
func (f *stream) open(ctx context.Context, key resources.Key) error {
	now, err := f.Store.Snapshot(ctx, key.Resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	c := &cursor{}
	c.watch, err = f.Store.Watch(ctx, resources.WatchOptions{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name,
		After: now.Revision(), Wake: func() { f.ready.add(c) }})
	if err != nil {
		c.closed = true // it may have been woken
		return err
	}
	f.watches[key] = c
	if f.Existing {
		f.tellAll(now, key)
	}
	return ctx.Err()
}

// tellAll tells of what there is, as if it were created now.
func (f *stream) tellAll(now resources.Snapshot, key resources.Key) {
	page := make([]*resources.Event, 0, min(PageSize, now.Count(key.Namespace, "")))
	now.Ascend(key.Namespace, "", func(o *resources.Object) bool {
		if key.Name != "" && key.Name != o.Name {
			return true
		}
		if len(page) == PageSize {
			f.observe(page)
			page = make([]*resources.Event, 0, PageSize)
		}
		page = append(page, &resources.Event{Op: resources.Create, Revision: o.Revision, Object: o})
		return true
	})
	f.observe(page)
}

// tell tells what a watch has to tell. When the database does not answer, the watch is as it was; after any other error
// everything is to begin anew.
func (f *stream) tell(ctx context.Context, c *cursor) error {
	for !c.closed {
		events, _, err := c.watch.Next(ctx, PageSize)
		if err != nil {
			if !errors.Is(err, resources.ErrUnavailable) {
				f.close()
			}
			return err
		}
		if len(events) == 0 {
			return nil
		}
		f.observe(events)
	}
	return nil
}

func (f *stream) observe(events []*resources.Event) {
	if len(events) > 0 {
		f.told = true
		f.handler.Observe(events)
	}
}

// await waits for a reason to go on.
func (f *stream) await(ctx context.Context) {
	var due, retry <-chan time.Time
	if !f.due.IsZero() {
		timer := time.NewTimer(time.Until(f.due))
		defer timer.Stop()
		due = timer.C
	}
	if len(f.unread) > 0 {
		timer := time.NewTimer(time.Until(f.retryAt))
		defer timer.Stop()
		retry = timer.C
	}
	var replaced <-chan struct{}
	if f.catalog != nil {
		replaced = f.catalog.Replaced()
	}
	select {
	case <-ctx.Done():
	case <-f.ready.woken:
	case <-replaced:
	case <-retry:
	case <-f.changed: // noticed when the next is taken
	case <-due:
		f.whole = true
	}
}

// close closes the watches; a Handler that goes on begins anew.
func (f *stream) close() {
	for _, c := range f.watches {
		c.watch.Close()
		c.closed = true
	}
	f.begun, f.followed, f.watches, f.left, f.unread, f.why = false, false, nil, nil, nil, nil
	f.ready.take()
}
