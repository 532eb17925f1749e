package handlers

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rowlock/rowlock/resources"
)

// sendInitial sends the state as ADDED events and then, if requested, the bookmark that marks its end (KEP-3157). The bookmark must come after the
// whole state, because the client drops objects that it has not received by then.
func (w *watchStream) sendInitial() bool {
	ok := true
	write := func(o *resources.Object) bool {
		ok = w.write(w.events.Event(w.writer(), watch.Added, o))
		return ok && !w.gone(time.Now()) // the watch may time out before the end of the state
	}
	b := batch{yield: write, convert: w.ready}
	send := func(o *resources.Object) bool {
		switch {
		case !w.selection.matches(o):
			return w.selection.failed == nil
		case w.q.served.Converted != nil:
			return b.add(o)
		}
		return write(o)
	}
	if w.selection.name != "" {
		if o := w.initial.Get(w.selection.namespace, w.selection.name); o != nil {
			send(o)
		}
	} else {
		w.events.Bulk(w.initial.Count(w.selection.namespace, ""))
		if convert := w.selection.convert; convert != nil {
			w.selection.convert = func(ctx context.Context, objects []*resources.Object) error {
				w.stall.done()
				return convert(ctx, objects)
			}
		}
		ctx, cancel := context.WithDeadline(w.q.ctx, w.until)
		defer cancel()
		w.selection.ascend(ctx, w.initial, "", send)
	}
	b.end()
	w.events.Bulk(0)
	explicit := w.opts.SendInitialEvents != nil
	w.initial = nil // a long watch must not keep the snapshot alive
	if err := errors.Join(w.selection.failed, b.err); err != nil && ok && !w.gone(time.Now()) {
		w.fail(err)
		return false
	}
	if ok = ok && !w.gone(time.Now()); ok && explicit && w.opts.AllowWatchBookmarks {
		if ok = w.bookmark(true); ok {
			w.h.counts.listed(w)
		}
		return ok
	}
	w.flush()
	return ok
}

// first converts the first objects if that needs a conversion webhook, so that a failed conversion is reported before the response begins, as in
// kube-apiserver.
func (w *watchStream) first() error {
	if w.initial == nil || w.q.served.Converted == nil {
		return nil
	}
	var objects []*resources.Object
	take := func(o *resources.Object) bool {
		if w.selection.convert != nil || w.selection.matches(o) {
			objects = append(objects, o)
		}
		return len(objects) < convertedAtOnce
	}
	if w.selection.name == "" {
		w.initial.Ascend(w.selection.namespace, "", take)
	} else if o := w.initial.Get(w.selection.namespace, w.selection.name); o != nil {
		take(o)
	}
	return w.events.Convert(w.q.ctx, objects)
}

// ready converts objects, which may call a webhook. That time does not count as a stall of the client.
func (w *watchStream) ready(objects []*resources.Object) error {
	return w.ask(objects, w.events.Convert)
}

// ask calls a conversion webhook, for no longer than the watch lasts, because the request's context may last longer.
func (w *watchStream) ask(objects []*resources.Object, convert func(context.Context, []*resources.Object) error) error {
	w.aside()
	ctx, cancel := context.WithDeadline(w.q.ctx, w.until)
	defer cancel()
	return convert(ctx, objects)
}

// batchSize is how many events are written before a flush.
const batchSize = 256

// drain sends all available events. It returns false when the watch has ended.
func (w *watchStream) drain() bool {
	for {
		events, err := w.next()
		if errors.Is(err, resources.ErrUnavailable) && !w.gone(time.Now()) {
			w.askAgain()
			return true
		}
		if err == nil && len(events) > 0 {
			err = w.send(events)
		}
		if err != nil {
			if !w.over() && !errors.Is(err, errStreamEnded) {
				w.fail(err)
			}
			return false
		}
		w.retryAt, w.pause = time.Time{}, 0
		switch len(events) {
		case 0:
			return true
		case batchSize:
			w.aside() // the watch is far behind: other watches must not wait for it
		}
	}
}

// over tells whether the watch must end without an error.
func (w *watchStream) over() bool {
	select {
	case <-w.h.Draining:
		return true
	default:
		return w.gone(time.Now())
	}
}

// next returns the next events, together with the type to render them with: it knows every definition under which they were written. If the store
// is unavailable, the same events are tried again.
func (w *watchStream) next() ([]*resources.Event, error) {
	if len(w.pending) == 0 {
		events, position, err := w.cursor.Next(w.q.ctx, batchSize)
		if err != nil {
			return nil, err
		}
		w.pending, w.read = events, max(w.read, position)
	}
	if len(w.pending) > 0 {
		if err := w.follow(); err != nil {
			return nil, err
		}
	}
	events := w.pending
	w.pending, w.position = nil, max(w.position, w.read)
	return events, nil
}

// errStreamEnded says that nothing more can be sent.
var errStreamEnded = errors.New("the stream has ended")

// send writes a page of events, and flushes it.
func (w *watchStream) send(events []*resources.Event) error {
	if convert := w.selection.convert; convert != nil {
		var looked []*resources.Object
		for _, e := range events {
			if looked = append(looked, e.Object); e.Prev != nil {
				looked = append(looked, e.Prev)
			}
		}
		if err := w.ask(looked, convert); err != nil {
			return err
		}
	}
	var waiting []shownEvent
	var objects []*resources.Object
	wrote := false
	for _, e := range events {
		if w.last > 0 && e.Revision > w.last {
			break
		}
		typ, o := w.selection.transition(e)
		switch {
		case w.selection.failed != nil:
			return w.selection.failed
		case o == nil:
		case w.q.served.Converted != nil:
			waiting, objects = append(waiting, shownEvent{typ, o}), append(objects, o)
		case !w.write(w.events.Event(w.writer(), typ, o)):
			return errStreamEnded
		default:
			wrote = true
		}
	}
	if len(waiting) > 0 {
		if err := w.ready(objects); err != nil {
			return err
		}
		for _, e := range waiting {
			if !w.write(w.events.Event(w.writer(), e.typ, e.object)) {
				return errStreamEnded
			}
		}
	}
	if wrote || len(waiting) > 0 {
		w.flush()
	}
	return nil
}

// shownEvent is an event as the watcher's selector presents it.
type shownEvent struct {
	typ    watch.EventType
	object *resources.Object
}

// follow determines the type with which to render the events just read. It adopts a replacement of the current type that renders objects to the
// same bytes; new table columns apply from now on. If the bytes differ, the client must list again, because the unchanged objects in its cache
// would be out of date. The same holds if a field of its selector is no longer selectable, because it is undefined then which objects match. If the
// version is no longer served, events up to that moment are still sent.
//
// It returns an ExpiredError if the client must list again, and the errors of resources.Watcher while the type cannot be determined.
func (w *watchStream) follow() error {
	if w.h.Definitions != nil && w.q.served.Requires != nil && !w.h.Definitions.HasSeen(w.read) {
		w.aside()
		if err := w.h.Definitions.Seen(w.q.ctx); err != nil {
			return err
		}
	}
	c := w.h.Registry.Catalog()
	if c.Replaced() == w.catalog {
		return nil
	}
	s, ok := c.Lookup(w.q.gvr())
	switch {
	case !ok:
		if err := w.endWithDefinition(); err != nil {
			return err
		}
	case lifeOf(s, w.opts.FieldSelector) != w.life:
		return &resources.ExpiredError{Requested: w.position, Oldest: w.position + 1}
	case s != w.q.served:
		w.q.served = s
		w.events.Follow(s)
		shard := w.selection.shard
		w.selection = w.q.selection(w.opts)
		w.selection.shard = shard
	}
	w.catalog = c.Replaced()
	return nil
}

// lifeOf is closed when watches with a selector have to end: those by a field that a definition makes selectable end also when such a field goes.
func lifeOf(s *resources.Served, selector fields.Selector) <-chan struct{} {
	if selector == nil || !slices.ContainsFunc(selector.Requirements(), func(r fields.Requirement) bool {
		return r.Field != "metadata.name" && r.Field != "metadata.namespace"
	}) {
		return s.Ended()
	}
	return s.SelectionEnded()
}

// endWithDefinition sets last, the last revision at which objects were written that the current type can render: that of the definition that no
// longer serves it. Without a definition there are no objects left.
func (w *watchStream) endWithDefinition() error {
	if w.q.served.Requires == nil {
		return nil
	}
	o, err := w.h.Store.Get(w.q.ctx, w.q.served.Requires.Key, resources.At{Match: resources.Any})
	switch {
	case err == nil:
		w.last = o.Revision
	case !errors.Is(err, resources.ErrNotFound):
		return err
	}
	return nil
}

// end sends what remains when the version is no longer served as before: all its events, with retries while the store is unavailable.
func (w *watchStream) end() {
	if _, ok := w.h.Registry.Catalog().Lookup(w.q.gvr()); ok {
		w.fail(&resources.ExpiredError{Requested: w.position, Oldest: w.position + 1})
		return
	}
	w.aside()
	over, cancel := context.WithDeadline(w.q.ctx, w.until)
	defer cancel()
	for w.drain() && !w.retryAt.IsZero() {
		select {
		case <-time.After(time.Until(w.retryAt)):
		case <-over.Done():
			return
		case <-w.h.Draining:
			return
		}
	}
}

// transition translates an event for a selector: an object that begins to match is ADDED; one that no longer matches is DELETED, with its last
// matching state at the revision of the change.
func (s *selection) transition(e *resources.Event) (watch.EventType, *resources.Object) {
	if e.Op == resources.Delete {
		if !s.matches(e.Object) {
			return "", nil
		}
		return watch.Deleted, e.Object
	}
	now, before := s.matches(e.Object), e.Prev != nil && s.matches(e.Prev)
	switch {
	case now && before:
		return watch.Modified, e.Object
	case now:
		return watch.Added, e.Object
	case before:
		return watch.Deleted, e.PrevAt()
	}
	return "", nil
}
