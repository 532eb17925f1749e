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

// stream is the state of Run.
type stream struct {
	Source
	handler Handler
	ready   *ready

	// begun: Begin was called, and watches has the watches opened since.
	begun   bool
	watches map[resources.Key]*cursor
	// followed: all watches are open, with a registry by the types of catalog.
	followed bool
	catalog  *resources.Catalog
	changed  <-chan struct{}
	// unread is Turn.Unread, and why has the errors. The types are read again at retryAt, retryPause after the last time.
	unread     []string
	why        []error
	retryAt    time.Time
	retryPause time.Duration
	said       complaint

	// left are the cursors of a round that have not been read yet.
	left []*cursor
	// told: there are new events since the last quiet turn. whole is Turn.Whole.
	told, whole bool
	// due is the time of the next turn without an event; zero for never.
	due time.Time
}

// cursor is an open watch.
type cursor struct {
	watch resources.Watch
	kind  schema.GroupKind // of the objects, for a type
	// closed: its type has left the Catalog, or the watch could not be opened.
	closed bool
	// listed: it is in ready.cursors, whose mutex guards this field.
	listed bool
}

// round delivers the events of all watches. quiet: there were none.
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

// begin calls Begin unless it was called.
func (f *stream) begin() {
	if f.begun {
		return
	}
	f.begun, f.whole, f.due, f.watches = true, true, time.Time{}, map[resources.Key]*cursor{}
	f.handler.Begin()
}

// lookForChange takes the channel for the next change before anything is read, so that none is missed.
func (f *stream) lookForChange() {
	if f.Changed == nil {
		return
	}
	select {
	case <-f.changed:
		f.whole = true
	default: // also for a nil channel
	}
	f.changed = f.Changed()
}

// turn calls the handler's Turn, unless there is no reason to.
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

// adopt opens the missing watches, and closes those of types that have left the Catalog.
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

// adopted records that all readable types are followed.
func (f *stream) adopted(catalog *resources.Catalog) {
	f.followed, f.catalog, f.told = true, catalog, true
	if len(f.unread) == 0 {
		f.retryPause = 0
		return
	}
	if f.retryAt.Before(time.Now()) { // so that other changes do not put it off
		f.retryLater()
	}
	f.complain(errors.Join(f.why...))
}

// retryLater increases the time until the types that are left out are read again: the transformer may log each attempt.
func (f *stream) retryLater() {
	f.retryPause = min(max(2*f.retryPause, f.Shortest), 10*f.Longest)
	f.retryAt = time.Now().Add(f.retryPause)
}

// readAgain makes everything begin again when a type that was left out is readable, is not served any more, or is followed because it
// changed.
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

// leavesOut reports whether a type that could not be opened is left out: one lost object must not stop the work on all others.
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

// adoptChange does the same for the groups that a change of the catalog has touched, where all watches were open before.
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
	// Deletions on the way to the type's removal still have to be delivered.
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

// adoptTypes opens the watches of types, and records them as wanted.
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

// open follows objects from now on. If it fails, none of their events was delivered.
func (f *stream) open(ctx context.Context, key resources.Key) error {
	now, err := f.Store.Snapshot(ctx, key.Resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	c := &cursor{}
	c.watch, err = f.Store.Watch(ctx, resources.WatchOptions{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name,
		After: now.Revision(), Wake: func() { f.ready.add(c) }})
	if err != nil {
		c.closed = true // Wake may have been called
		return err
	}
	f.watches[key] = c
	if f.Existing {
		f.tellAll(now, key)
	}
	return ctx.Err()
}

// tellAll delivers the existing objects, as if they were created now.
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

// tell delivers the events of a watch. When the database does not answer, the watch stays unchanged; after any other error everything
// begins again.
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

// await waits for a reason to continue.
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
	case <-f.changed: // the next lookForChange sees it
	case <-due:
		f.whole = true
	}
}

// close closes the watches; if Run continues, everything begins again.
func (f *stream) close() {
	for _, c := range f.watches {
		c.watch.Close()
		c.closed = true
	}
	f.begun, f.followed, f.watches, f.left, f.unread, f.why = false, false, nil, nil, nil, nil
	f.ready.take()
}
