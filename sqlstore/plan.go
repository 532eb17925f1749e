package sqlstore

import (
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// plan is what a batch will write. Writes are checked against the state before the batch and what the batch has done
// so far, so that one that fails is answered without having touched the transaction.
type plan struct {
	state    func(resource string) *tree // before the batch
	revision int64                       // of the last change planned, or of the state
	changes  []change
	pending  map[resources.Key]*resources.Object // by key, after the changes; nil for deleted
}

// change is one write that passed its preconditions.
type change struct {
	event   *resources.Event
	expires int64 // unix milliseconds; 0 for never
}

// size is what the change adds to history.
func (c *change) size() int64 {
	n := len(c.event.Object.Data)
	if c.event.Op == resources.Update {
		n += len(c.event.Prev.Data)
	}
	return int64(n)
}

// batch is a plan on its way to the database.
type batch struct {
	at       int64 // unix milliseconds
	revision int64 // of the last change
	size     int64 // what it adds to history
	changes  []change
	cut      *cut // what it takes out of history; nil: nothing
}

// add plans all writes of one request, or none. Errors: those of resources.Writer that name a precondition.
func (p *plan) add(writes []resources.Write, now time.Time) ([]*resources.Object, error) {
	before := len(p.changes)
	objects := make([]*resources.Object, len(writes))
	for i := range writes {
		c, err := p.change(&writes[i])
		if err != nil {
			p.takeBack(before)
			return nil, err
		}
		if ttl := writes[i].TTL; ttl > 0 && writes[i].Op != resources.Delete {
			c.expires = now.Add(ttl).UnixMilli()
		}
		p.revision = c.event.Revision
		p.changes = append(p.changes, c)
		p.remember(c.event)
		objects[i] = c.event.Object
	}
	return objects, nil
}

// change checks one write against the state and computes what it does.
func (p *plan) change(w *resources.Write) (change, error) {
	current := p.current(w.Key)
	revision := p.revision + 1
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
	case current.Revision != w.From:
		return change{}, &resources.ConflictError{Key: w.Key, Current: current}
	case w.Op == resources.Update:
		e.Object = resources.NewObject(w.Key, w.Draft, revision)
	default:
		e.Object = current.At(revision)
	}
	return change{event: e}, nil
}

func (p *plan) current(key resources.Key) *resources.Object {
	if o, ok := p.pending[key]; ok {
		return o
	}
	o, _ := p.state(key.Resource).objects.Get(key.Path())
	return o
}

func (p *plan) remember(e *resources.Event) {
	if p.pending == nil {
		p.pending = map[resources.Key]*resources.Object{}
	}
	if e.Op == resources.Delete {
		p.pending[e.Object.Key] = nil
	} else {
		p.pending[e.Object.Key] = e.Object
	}
}

// takeBack forgets the changes after the first n, the last one first.
func (p *plan) takeBack(n int) {
	for i := len(p.changes) - 1; i >= n; i-- {
		e := p.changes[i].event
		p.pending[e.Object.Key] = e.Prev
		p.revision = e.Revision - 1
	}
	p.changes = p.changes[:n]
}
