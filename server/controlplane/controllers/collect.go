package controllers

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
)

// errOwnersChanged says that the object no longer has the owner references that were examined.
var errOwnersChanged = errors.New("owner references changed")

// look examines an object, and collects it if it is garbage.
func (g *garbage) look(ctx context.Context, uid types.UID) error {
	for {
		if err := g.judge(ctx, uid); !errors.Is(err, errOwnersChanged) {
			return err
		}
	}
}

func (g *garbage) judge(ctx context.Context, uid types.UID) error {
	graph := g.whole.Load()
	n, ok := g.graph.node(uid)
	if !ok || graph == 0 {
		return nil
	}
	g.parked.remove(uid)
	t, ok := g.registry.Catalog().Type(n.key.Resource)
	if !ok {
		g.park(uid, absent{resource: n.key.Resource})
		return nil
	}
	live, err := g.store.Get(ctx, n.key, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	m := readMetadata(live.Data)
	switch {
	case m.uid != uid:
		return nil // it is gone; the feed will show the deletion
	case m.waits():
		return g.release(ctx, t, live.Key, uid, graph)
	case m.deleting || len(m.owners) == 0:
		return nil
	}
	owners, err := g.classify(ctx, live.Key, m.owners)
	var unknown *absentError
	switch {
	case errors.As(err, &unknown):
		g.park(uid, unknown.absent)
		return nil
	case errors.Is(err, errNamespacedOwner):
		return nil // owner references do not become valid later
	case err != nil:
		return err
	}
	return g.decide(ctx, t, live.Key, m, owners, graph)
}

// decide acts on the states of the owners, provided that the graph has not been cleared meanwhile.
func (g *garbage) decide(ctx context.Context, t *resources.Type, key resources.Key, m metadata, owners map[state][]owner, graph uint64) error {
	switch {
	case len(owners[solid]) == len(m.owners):
		return nil
	case len(owners[solid]) > 0:
		// References to waiting owners are removed too, or those owners would wait for this object, which stays.
		return g.dropOwners(ctx, t, key, m.uid, append(owners[dangling], owners[waiting]...))
	case len(owners[waiting]) == 0:
		return g.delete(ctx, t, key, m, m.propagation())
	}
	dependents := g.graph.dependentsOf(m.uid)
	if g.whole.Load() != graph {
		return nil
	}
	if len(dependents) == 0 {
		return g.delete(ctx, t, key, m, m.propagation())
	}
	if slices.ContainsFunc(dependents, func(n node) bool { return n.waits() }) {
		// The dependents may form a circle, in which each waits for the next.
		if err := g.unblockOwners(ctx, t, key, m.uid); err != nil {
			return err
		}
		for i := range m.owners {
			m.owners[i].blocks = false
		}
	}
	return g.delete(ctx, t, key, m, metav1.DeletePropagationForeground)
}

// delete deletes the object while it has the owner references that were examined. It is no error when the object is gone already.
func (g *garbage) delete(ctx context.Context, t *resources.Type, key resources.Key, m metadata, p metav1.DeletionPropagation) error {
	r := resources.DeleteRequest{Type: t, Name: key.Name,
		Options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.uid}, PropagationPolicy: &p},
		Precondition: func(_ context.Context, obj runtime.Object) error {
			now, err := meta.Accessor(obj)
			if err == nil && !slices.Equal(ownersOf(now), m.owners) {
				err = errOwnersChanged
			}
			return err
		}}
	_, err := g.pipeline.Delete(collector.Request(ctx, "delete", t, key), &r)
	return resources.UnlessGone(ctx, g.store, key, m.uid, 0, err)
}

// release removes the finalizer of an object that waited for its dependents, if none of them blocks it any more.
// Otherwise the deletion of the last one queues the object again. Its dependents were queued when it began to wait, or
// when they began to refer to it.
func (g *garbage) release(ctx context.Context, t *resources.Type, key resources.Key, uid types.UID, graph uint64) error {
	if g.graph.blocked(uid) || g.whole.Load() != graph {
		return nil
	}
	return g.dropFinalizer(ctx, t, key, uid, metav1.FinalizerDeleteDependents)
}
