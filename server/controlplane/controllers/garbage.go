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

// garbage is the garbage collector ("Resource deletion" of the API concepts page). It deletes the objects whose owners
// are all gone, releases objects that wait for their dependents, and removes the owner references of dependents that
// are to be orphaned.
type garbage struct {
	registry *resources.Registry
	store    resources.View
	pipeline *resources.Pipeline
	logger   *slog.Logger
	graph    graph

	deletions *queue[types.UID]
	orphans   *queue[types.UID]
	reports   *queue[*suspects]

	// fresh and ripe are the findings of this round and of the last one. Only the goroutine of the feed uses them.
	fresh, ripe findings

	parked parked

	// whole is 0 until the graph has the existing objects of all types, and gets another number each time that the graph was cleared.
	// Nothing is decided while it is 0, nor from a graph that has been cleared since: the object is found again.
	whole atomic.Uint64
	// graphs counts the graphs. Only the goroutine of the feed uses it.
	graphs uint64
	// blind: the graph stays incomplete because a type cannot be read. Only the goroutine of the feed uses it.
	blind bool
}

// collector is the service account of the garbage collector.
var collector = resources.Controller("generic-garbage-collector")

// findings are objects that changes have made necessary to examine, or whose dependents are to be orphaned.
type findings struct{ look, orphan []types.UID }

// Workers wait for commits most of the time, and the more of them wait, the more writes the store puts into one transaction.
const (
	deletionWorkers = 64
	orphanWorkers   = 4
	orphanWriters   = 32
)

func newGarbage(c Config) *garbage {
	return &garbage{registry: c.Registry, store: c.Store, pipeline: c.Pipeline, logger: c.Logger, deletions: newQueue[types.UID](c.Logger),
		orphans: newQueue[types.UID](c.Logger), reports: newQueue[*suspects](c.Logger)}
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

// ignored are the types that the garbage collector does not handle, as in kube-controller-manager: Events expire.
var ignored = sets.New("events", "events.events.k8s.io")

func (g *garbage) observe(e *resources.Event) {
	if wasProxied(e) {
		g.unproxied(e.Object.Name)
	}
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

// turn gives findings to the workers one round after they were made: by then the graph has all earlier changes of every type.
//
// The owners of an object that cannot be read are not known: it may be a dependent that has to be orphaned when its owner is deleted.
// So nothing is judged until all objects can be read; then everything is shown again.
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

// typesChanged queues the objects whose awaited type may be served now.
func (g *garbage) typesChanged() {
	catalog := g.registry.Catalog()
	g.unpark(func(until absent) bool { return until.served(catalog) })
}

// unproxied queues the objects that waited for an APIService to have no Service.
func (g *garbage) unproxied(apiService string) {
	g.unpark(func(until absent) bool { return until.apiService == apiService })
}

func (g *garbage) unpark(served func(absent) bool) {
	for _, uid := range g.parked.take(served) {
		g.deletions.Add(uid)
		g.orphans.Add(uid)
	}
}

// park makes an object wait until something is served. It checks at once whether that is served by now, and whether the object still exists.
func (g *garbage) park(uid types.UID, until absent) {
	g.parked.add(uid, until)
	if until.apiService != "" {
		// The watch cache has what the feed has shown. Where it cannot be read, the next change of the APIService unparks.
		if there, err := isProxied(context.Background(), g.store, until.apiService); err == nil && !there {
			g.unproxied(until.apiService)
		}
	} else if until.served(g.registry.Catalog()) {
		g.typesChanged()
	}
	if _, ok := g.graph.node(uid); !ok {
		g.parked.remove(uid)
	}
}

// left parks the objects that refer to a kind that is no longer served, since the state of their owners is not known. They are
// judged when the kind is served again; only then are objects of the kind noticed that were deleted meanwhile.
func (g *garbage) left(resource string, kind schema.GroupKind) {
	for uid, until := range g.graph.leave(resource, kind) {
		g.park(uid, until)
	}
}

// shown handles a type that is served again: its objects that were not shown have been deleted meanwhile.
func (g *garbage) shown(resource string) {
	g.fresh.look = append(g.fresh.look, g.graph.missed(resource)...)
}

// belongs tells whether all owners of an object exist and are not waiting for their dependents. Those that are not where they have to be may be in
// another namespace. They are searched for by the worker of the reports, because a search visits all objects of a type and the feed must not wait
// for it.
func (g *garbage) belongs(key resources.Key, m metadata) bool {
	ctx, settled := context.Background(), true // the reads below do not wait
	var strange []owner
	for _, o := range m.owners {
		t, err := g.ownerType(o, key)
		if err != nil && !errors.Is(err, errNamespacedOwner) {
			settled = false
			continue
		}
		state, err := g.ownerState(ctx, t, o, key, resources.Any)
		if err == nil && state == solid {
			continue
		}
		settled = false
		if (err != nil || state == dangling) && t.Namespaced && len(strange) < mostSuspects {
			strange = append(strange, o)
		}
	}
	if len(strange) > 0 && g.reports.Len() < mostReports {
		g.reports.Add(&suspects{key: key, uid: m.uid, owners: strange})
	}
	return settled
}

// propagation returns how to delete an object that lost its owners: as its finalizers say, if it has one.
func (m metadata) propagation() metav1.DeletionPropagation {
	switch {
	case m.orphan:
		return metav1.DeletePropagationOrphan
	case m.foreground:
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
