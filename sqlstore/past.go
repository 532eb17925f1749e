package sqlstore

import (
	"container/list"
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
)

// past returns the state of a resource type at a revision that is not in the future, by taking back the changes since.
func (s *Store) past(ctx context.Context, resource string, revision int64) (snapshot, error) {
	if floor := s.floor.Load(); revision < floor {
		return snapshot{}, &resources.ExpiredError{Requested: revision, Oldest: floor}
	}
	key := pastKey{resource, revision}
	if t := s.pasts.get(key); t != nil {
		return snapshot{tree: t, revision: revision}, nil
	}
	c := s.collection(resource)
	c.mu.Lock()
	now := c.tree.Load()
	recent, complete := c.after(revision)
	recent = append([]*resources.Event(nil), recent...)
	logStart := c.logStart
	c.mu.Unlock()
	if now.last <= revision {
		return snapshot{tree: now, revision: revision}, nil
	}

	u := undo{tree: now.edit(), done: map[string]bool{}}
	if !complete {
		for from := revision; from < logStart; {
			page, err := s.db.history(ctx, historyQuery{resource: resource, after: from, upTo: logStart, limit: historyPage})
			if err != nil {
				return snapshot{}, err
			}
			u.take(page.events)
			from = page.upTo
		}
	}
	u.take(recent)
	u.tree.last = revision
	s.pasts.add(key, u.tree)
	s.janitor.at(forget, s.clock.Now().Add(pastsAge))
	return snapshot{tree: u.tree, revision: revision}, nil
}

// undo takes changes back. Only the first change of an object counts, since it knows what was before all of them.
type undo struct {
	tree *tree
	done map[string]bool
}

func (u *undo) take(events []*resources.Event) {
	for _, e := range events {
		if path := e.Object.Path(); !u.done[path] {
			u.done[path] = true
			u.tree.set(path, e.Prev)
		}
	}
}

// pasts keeps the past states that were asked for of late: the pages of a list all ask for the same one. What it
// retains is bounded in number and in age.
type pasts struct {
	clock clock.Clock

	mu    sync.Mutex
	byKey map[pastKey]*list.Element
	order list.List // of *pastEntry, the one used last in front
}

type pastKey struct {
	resource string
	revision int64
}

type pastEntry struct {
	key  pastKey
	tree *tree
	used time.Time
}

const (
	pastsMax = 32
	pastsAge = time.Minute
)

func (p *pasts) get(key pastKey) *tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.byKey[key]
	if !ok {
		return nil
	}
	entry := e.Value.(*pastEntry)
	entry.used = p.clock.Now()
	p.order.MoveToFront(e)
	return entry.tree
}

func (p *pasts) add(key pastKey, t *tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[pastKey]*list.Element{}
	}
	if _, ok := p.byKey[key]; !ok {
		p.byKey[key] = p.order.PushFront(&pastEntry{key: key, tree: t, used: p.clock.Now()})
	}
	for len(p.byKey) > pastsMax {
		p.drop(p.order.Back())
	}
}

// expire forgets what was not used for pastsAge, and returns when to look again (zero: nothing is
// left).
func (p *pasts) expire(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := p.order.Back(); e != nil; e = p.order.Back() {
		if due := e.Value.(*pastEntry).used.Add(pastsAge); due.After(now) {
			return due
		}
		p.drop(e)
	}
	return time.Time{}
}

// clear forgets all.
func (p *pasts) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byKey = nil
	p.order.Init()
}

func (p *pasts) drop(e *list.Element) {
	p.order.Remove(e)
	delete(p.byKey, e.Value.(*pastEntry).key)
}
