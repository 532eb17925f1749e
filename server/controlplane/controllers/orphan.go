package controllers

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
)

// orphanDependents removes the references to an owner from all its dependents, and then the owner's finalizer.
func (g *garbage) orphanDependents(ctx context.Context, uid types.UID) error {
	graph := g.whole.Load()
	n, ok := g.graph.node(uid)
	if !ok || graph == 0 || !n.orphans() {
		return nil
	}
	t, ok := g.registry.Catalog().Type(n.key.Resource)
	if !ok {
		g.park(uid, absent{resource: n.key.Resource})
		return nil
	}
	var writers errgroup.Group
	writers.SetLimit(orphanWriters)
	dependents := g.graph.dependentsOf(uid)
	if g.whole.Load() != graph {
		return nil
	}
	for _, dependent := range dependents {
		dt, ok := g.registry.Catalog().Type(dependent.key.Resource)
		if !ok {
			// The owner stays until this dependent no longer refers to it; otherwise the dependent would be deleted with the owner.
			g.park(uid, absent{resource: dependent.key.Resource})
			return writers.Wait()
		}
		writers.Go(func() error { return g.dropOwners(ctx, dt, dependent.key, dependent.uid, []owner{{uid: uid}}) })
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	return g.dropFinalizer(ctx, t, n.key, uid, metav1.FinalizerOrphanDependents)
}

// dropOwners removes the references to the given owners.
func (g *garbage) dropOwners(ctx context.Context, t *resources.Type, key resources.Key, uid types.UID, owners []owner) error {
	return g.change(ctx, t, key, uid, func(m metav1.Object) { m.SetOwnerReferences(withoutOwners(m.GetOwnerReferences(), owners)) })
}

// withoutOwners returns the references to other owners than the given ones; nil when there are none, since an object without a Go
// type would keep an empty list.
func withoutOwners(refs []metav1.OwnerReference, owners []owner) []metav1.OwnerReference {
	gone := sets.Set[types.UID]{}
	for _, o := range owners {
		gone.Insert(o.uid)
	}
	refs = slices.DeleteFunc(refs, func(ref metav1.OwnerReference) bool { return gone.Has(ref.UID) })
	if len(refs) == 0 {
		return nil
	}
	return refs
}

// unblockOwners clears blockOwnerDeletion in the object's owner references.
func (g *garbage) unblockOwners(ctx context.Context, t *resources.Type, key resources.Key, uid types.UID) error {
	return g.change(ctx, t, key, uid, func(m metav1.Object) {
		refs := m.GetOwnerReferences()
		for i := range refs {
			if refs[i].BlockOwnerDeletion != nil {
				refs[i].BlockOwnerDeletion = new(bool)
			}
		}
		m.SetOwnerReferences(refs)
	})
}

// dropFinalizer removes one of the garbage collector's finalizers, which lets the object be removed.
func (g *garbage) dropFinalizer(ctx context.Context, t *resources.Type, key resources.Key, uid types.UID, finalizer string) error {
	return g.change(ctx, t, key, uid, func(m metav1.Object) {
		left := slices.DeleteFunc(m.GetFinalizers(), func(f string) bool { return f == finalizer })
		if len(left) == 0 {
			left = nil // as in withoutOwners
		}
		m.SetFinalizers(left)
	})
}

// change updates the metadata of an object, if it still exists.
func (g *garbage) change(ctx context.Context, t *resources.Type, key resources.Key, uid types.UID, edit func(metav1.Object)) error {
	r := resources.UpdateRequest{Type: t, Name: key.Name, UID: uid, Metadata: true,
		Change: func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
			obj := existing.DeepCopyObject()
			m, err := meta.Accessor(obj)
			if err != nil {
				return nil, err
			}
			if live == nil {
				return nil, resources.ErrNotFound
			}
			edit(m)
			return g.managed(t, existing, obj)
		}}
	_, _, err := g.pipeline.Update(collector.Request(ctx, "patch", t, key), &r)
	return resources.UnlessGone(ctx, g.store, key, uid, 0, err)
}

// managed writes the managedFields that follow from changing existing into obj, where no webhook is needed for that.
func (g *garbage) managed(t *resources.Type, existing, obj runtime.Object) (runtime.Object, error) {
	served, ok := preferred(g.registry.Catalog(), t.GroupResource)
	if !ok {
		return obj, nil
	}
	manager, err := served.MetadataManager(existing)
	if err != nil || manager == nil {
		return obj, err
	}
	return manager.Update(existing, obj, fieldManager), nil
}
