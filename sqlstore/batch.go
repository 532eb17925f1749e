package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// batchBuilder collects the changes of a batch. Each write is checked against the state before the batch and the
// changes so far, so a write that fails is answered without having touched the transaction.
type batchBuilder struct {
	state    func(resource string) *tree // before the batch
	revision int64                       // of the last change added, or of the state
	floor    int64                       // the log has every change after it
	sealer   *sealer
	changes  []change
	pending  map[resources.Key]*resources.Object // by key, after the changes; nil for deleted
	unread   map[resources.Key]sealed            // stored rows of unreadable objects, for the request that is being added
}

// change is one write that passed its preconditions.
type change struct {
	event    *resources.Event
	expires  int64 // unix milliseconds; 0 for never
	withPrev bool  // the previous object is stored with the change, because the log may not have it
	author   sql.NullString
	stored   sealed // the row of the object after the change
	prev     sealed // the row of the object before it, if withPrev
}

// size is how many bytes the change adds to history.
func (c *change) size() int64 {
	n := len(c.event.Object.Stored()) + len(c.author.String)
	if c.withPrev {
		n += len(c.event.Prev.Stored())
	}
	if c.event.Object.Unreadable() != nil {
		n += len(c.stored.data)
	}
	return int64(n)
}

// batch is the result of a batchBuilder, on its way to the database.
type batch struct {
	at       int64 // unix milliseconds
	revision int64 // of the last change
	size     int64 // bytes that it adds to history
	floor    int64 // batchBuilder.floor
	changes  []change
	cut      *cut // what it prunes; nil: nothing
}

// add adds all writes of one request, or none. Errors: those of resources.Writer that name a precondition.
func (b *batchBuilder) add(writes []resources.Write, author sql.NullString, now time.Time) ([]*resources.Object, error) {
	before, begun := len(b.changes), b.revision
	objects := make([]*resources.Object, len(writes))
	for i := range writes {
		o, err := b.addOne(&writes[i], begun, author, now)
		if err != nil {
			b.takeBack(before)
			return nil, err
		}
		objects[i] = o
	}
	return objects, nil
}

// addOne adds a write and returns its result. begun is the revision before the first write of the request.
func (b *batchBuilder) addOne(w *resources.Write, begun int64, author sql.NullString, now time.Time) (*resources.Object, error) {
	if w.Op == resources.Expect {
		return b.expected(w)
	}
	c, err := b.change(w, begun)
	if err != nil {
		return nil, err
	}
	if w.TTL > 0 && w.Op != resources.Delete {
		c.expires = now.Add(w.TTL).UnixMilli()
	}
	c.author = author
	if err := b.seal(&c); err != nil {
		return nil, err
	}
	b.revision = c.event.Revision
	b.changes = append(b.changes, c)
	b.remember(c.event)
	return c.event.Object, nil
}

// seal computes the rows of a change's objects. It makes no call to another process, except to a plugin of KMS v1.
func (b *batchBuilder) seal(c *change) (err error) {
	if c.event.Object.Unreadable() != nil {
		c.stored = b.unread[c.event.Object.Key]
		return nil
	}
	ctx := context.Background() // a batch has many requests
	if c.stored, err = b.sealer.sealObject(ctx, c.event.Object); err == nil && c.withPrev {
		c.prev, err = b.sealer.sealObject(ctx, c.event.Prev)
	}
	return err
}

// expected returns the object of an Expect. Other requests of the batch may have changed it; the request itself does
// not (checkExpects), so the object is at this revision at each change of the request.
func (b *batchBuilder) expected(w *resources.Write) (*resources.Object, error) {
	current := b.current(w.Key)
	if current == nil || current.Revision != w.From {
		return nil, &resources.ExpectationError{Key: w.Key, Current: unpacked(current)}
	}
	return current, nil // it may stay packed: the request did not ask for the bytes of an expected object
}

// change checks a write against the state and computes its change. begun is the revision before its request's first
// write.
func (b *batchBuilder) change(w *resources.Write, begun int64) (change, error) {
	current := unpacked(b.current(w.Key))
	revision := b.revision + 1
	if w.Op == resources.Delete && w.Unread != nil {
		return unreadChange(w, current, revision)
	}
	e := &resources.Event{Op: w.Op, Revision: revision, Prev: current}
	switch {
	case w.Op == resources.Create && current != nil:
		return change{}, fmt.Errorf("%s: %w", w.Key, resources.ErrExists)
	case w.Op == resources.Create:
		e.Object = resources.NewObject(w.Key, w.Draft, revision)
	case w.Op != resources.Update && w.Op != resources.Delete:
		return change{}, fmt.Errorf("write of %s: unknown operation %d", w.Key, w.Op)
	case current == nil:
		return change{}, fmt.Errorf("%s: %w", w.Key, resources.ErrNotFound)
	case !isFrom(w, current, begun) && current.Unreadable() == nil:
		return change{}, &resources.ConflictError{Key: w.Key, Current: current}
	case current.Unreadable() != nil:
		return change{}, current.Unreadable()
	case w.Op == resources.Update:
		e.Object = resources.NewObject(w.Key, w.Draft, revision)
	default:
		e.Object = current.At(revision)
	}
	return change{event: e, withPrev: w.Op == resources.Update && current.Revision <= b.floor}, nil
}

// isFrom reports whether a write was computed from the current object. begun is the revision before its request's first
// write.
func isFrom(w *resources.Write, current *resources.Object, begun int64) bool {
	if w.From == resources.FromEarlier {
		return current.Revision > begun
	}
	return current.Revision == w.From
}

// unreadChange deletes an object that cannot be read. If it could not be decrypted, the state must say so as well;
// otherwise it has become readable. Whether its bytes decode to its type is not checked by the store.
func unreadChange(w *resources.Write, current *resources.Object, revision int64) (change, error) {
	if current == nil || current.Revision != w.From || !w.Unread.Undecodable && current.Unreadable() == nil {
		return change{}, fmt.Errorf("%s: there is none that cannot be read: %w", w.Key, resources.ErrNotFound)
	}
	return change{event: &resources.Event{Op: resources.Delete, Revision: revision,
		Object: resources.Unreadable(w.Key, revision, w.Unread.Err), Prev: resources.Unreadable(w.Key, current.Revision, w.Unread.Err)}}, nil
}

func unpacked(o *resources.Object) *resources.Object {
	if o == nil {
		return nil
	}
	return o.Unpacked()
}

func (b *batchBuilder) current(key resources.Key) *resources.Object {
	if o, ok := b.pending[key]; ok {
		return o
	}
	o, _ := b.state(key.Resource).objects.Get(key.Path())
	return o
}

func (b *batchBuilder) remember(e *resources.Event) {
	if b.pending == nil {
		b.pending = map[resources.Key]*resources.Object{}
	}
	if e.Op == resources.Delete {
		b.pending[e.Object.Key] = nil
	} else {
		b.pending[e.Object.Key] = e.Object
	}
}

// takeBack drops the changes after the first n, the last one first.
func (b *batchBuilder) takeBack(n int) {
	for i := len(b.changes) - 1; i >= n; i-- {
		e := b.changes[i].event
		b.pending[e.Object.Key] = e.Prev
		b.revision = e.Revision - 1
	}
	b.changes = b.changes[:n]
}
