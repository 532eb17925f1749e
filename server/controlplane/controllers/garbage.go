package controllers

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
)

// garbage is the garbage collector ("Resource deletion" of the API concepts page): it deletes the objects whose owners
// are all gone, lets those go that wait for their dependents, and takes the owner from dependents that are to stay.
type garbage struct {
	registry *resources.Registry
	store    resources.View
	pipeline *resources.Pipeline
	logger   *slog.Logger
	graph    graph

	deletions *queue[types.UID]
	orphans   *queue[types.UID]
	reports   *queue[invalidOwner]

	// fresh and ripe are what this round and the last found necessary. They belong to the goroutine of the feed.
	fresh, ripe findings

	parked parked

	// whole is not 0 while the graph has what was there, of all types, and another number each time that it was cleared. Nothing is judged
	// before, nor by what was seen of a graph that has been cleared since: the object is found again.
	whole atomic.Uint64
	// graphs is how many there were. It is the feed's.
	graphs uint64
	// blind: it will not, because a type cannot be read. It belongs to the goroutine of the feed.
	blind bool
}

// collector is who collects garbage.
var collector = resources.Controller("generic-garbage-collector")

// findings are what changes made necessary.
type findings struct{ look, orphan []types.UID }

// Workers wait for commits most of the time, and the more of them wait the more the store writes in one transaction.
const (
	deletionWorkers = 64
	orphanWorkers   = 4
	orphanWriters   = 32
)

func newGarbage(c Config) *garbage {
	return &garbage{registry: c.Registry, store: c.Store, pipeline: c.Pipeline, logger: c.Logger, deletions: newQueue[types.UID](c.Logger),
		orphans: newQueue[types.UID](c.Logger), reports: newQueue[invalidOwner](c.Logger)}
}

func (g *garbage) work(ctx context.Context) {
	var all errgroup.Group
	all.Go(func() error { g.deletions.work(ctx, deletionWorkers, g.look); return nil })
	all.Go(func() error { g.orphans.work(ctx, orphanWorkers, g.orphanDependents); return nil })
	all.Go(func() error { g.reports.work(ctx, 1, g.report); return nil })
	_ = all.Wait() // the queues have no errors
}

var _ roundObserver = (*garbage)(nil)

func (g *garbage) forget() {
	g.whole.Store(0)
	g.graphs++
	g.blind = false
	g.graph.clear()
	g.fresh, g.ripe = findings{}, findings{}
	g.parked.clear()
}

// ignored are the types that no garbage is made of, as with kube-controller-manager: an Event ends by itself.
var ignored = sets.New("events", "events.events.k8s.io")

func (g *garbage) observe(e *resources.Event) {
	if g.blind || ignored.Has(e.Object.Resource) {
		return
	}
	m := readMetadata(e.Object.Data)
	if e.Op == resources.Delete {
		g.fresh.look = append(g.fresh.look, g.graph.remove(m.uid)...)
		g.parked.remove(m.uid)
		return
	}
	c := g.graph.put(e.Object.Key, m)
	g.fresh.look = append(g.fresh.look, c.look...)
	if c.orphans {
		g.fresh.orphan = append(g.fresh.orphan, m.uid)
	}
	if c.owners && !g.belongs(e.Object.Key, m) {
		g.fresh.look = append(g.fresh.look, m.uid)
	}
}

// turn gives what is necessary to the workers, a round after it was found: by then the graph has all that happened
// before, of every type.
//
// Of an object that cannot be read nobody knows to whom it belongs. It might be one that is to stay when its owner goes. So nothing is
// judged until all can be read, and everything is shown anew then.
func (g *garbage) turn(t follow.Turn) {
	if len(t.Unread) > 0 {
		g.forget()
		g.blind = true
		return
	}
	g.whole.Store(g.graphs + 1)
	g.hand(g.ripe)
	g.ripe, g.fresh = g.fresh, findings{}
	if t.Quiet {
		g.hand(g.ripe)
		g.ripe = findings{}
	}
}

func (g *garbage) hand(f findings) {
	for _, uid := range f.look {
		g.deletions.Add(uid)
	}
	for _, uid := range f.orphan {
		g.orphans.Add(uid)
	}
}

// typesChanged: what an object waits for may be served now.
func (g *garbage) typesChanged() { g.unpark() }

func (g *garbage) unpark() {
	for _, uid := range g.parked.take(g.registry.Catalog()) {
		g.deletions.Add(uid)
		g.orphans.Add(uid)
	}
}

// park has an object judged when something is served. It may be by now, and the object gone.
func (g *garbage) park(uid types.UID, until absent) {
	g.parked.add(uid, until)
	if until.served(g.registry.Catalog()) {
		g.unpark()
	}
	if _, ok := g.graph.node(uid); !ok {
		g.parked.remove(uid)
	}
}

// left: nobody knows what becomes of the objects of a type that is not served. Who belongs to one of them is judged when it is
// served again; and so is who of them has gone by then.
func (g *garbage) left(resource string, kind schema.GroupKind) {
	for uid, until := range g.graph.leave(resource, kind) {
		g.park(uid, until)
	}
}

// shown: of a type that is served again, the objects that were not shown have gone meanwhile.
func (g *garbage) shown(resource string) {
	g.fresh.look = append(g.fresh.look, g.graph.missed(resource)...)
}

// belongs tells whether all owners of an object are there and are to stay. Whoever refers to an object in another
// namespace is told so by an Event.
func (g *garbage) belongs(key resources.Key, m metadata) bool {
	ctx, settled := context.Background(), true // nothing is waited for
	for _, o := range m.owners {
		t, err := g.ownerType(o, key)
		if err != nil && !errors.Is(err, errNamespacedOwner) {
			settled = false
			continue
		}
		if state, err := g.ownerState(ctx, t, o, key, resources.Any); err == nil && state == solid {
			continue
		}
		settled = false
		if t.Namespaced && g.elsewhere(ctx, t, o, key.Namespace) {
			g.reports.Add(invalidOwner{key: key, uid: m.uid, owner: o})
		}
	}
	return settled
}

// elsewhere tells whether the owner is in another namespace than the object that refers to it.
func (g *garbage) elsewhere(ctx context.Context, t *resources.Type, o owner, namespace string) bool {
	s, err := g.store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.Any})
	if err != nil {
		return false
	}
	found := false
	s.Ascend("", "", func(other *resources.Object) bool {
		found = other.Name == o.name && other.Namespace != namespace && readMetadata(other.Data).uid == o.uid
		return !found
	})
	return found
}

// propagation is how an object is deleted that lost its owners: as its finalizers say, if it has one.
func (m metadata) propagation() metav1.DeletionPropagation {
	switch {
	case m.orphan:
		return metav1.DeletePropagationOrphan
	case m.foreground:
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
