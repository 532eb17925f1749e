package resources

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// projection is the projection of the update's path; nil when the path shows the object itself.
func (u update) projection() Projection {
	if u.sub == nil {
		return nil
	}
	return u.sub.Projection
}

// changedProjection changes the projection of the object, runs mutating admission on it, and carries the result over to the
// object, field ownership included.
func (u update) changedProjection(ctx context.Context, existing runtime.Object, live *Object) (runtime.Object, error) {
	projection := u.projection()
	parent := existing.DeepCopyObject()
	owned, err := meta.Accessor(parent)
	if err != nil {
		return nil, err
	}
	owners := managedfields.NewScaleHandler(owned.GetManagedFields(), u.Type.requestVersion(ctx), projection.ReplicasPaths())
	begin := projection.FromParent
	if c, ok := projection.(Changeable); ok {
		begin = c.ToChange
	}
	old, err := begin(existing)
	if err != nil {
		return nil, err
	}
	oldMeta, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	entries, err := owners.ToSubresource()
	if err != nil {
		return nil, err
	}
	oldMeta.SetManagedFields(entries)
	sub, err := u.change(ctx, old, live)
	if err != nil {
		return nil, err
	}
	if err := u.p.admit(ctx, u.admitted(sub, old)); err != nil {
		return nil, err
	}
	subMeta, err := meta.Accessor(sub)
	if err != nil {
		return nil, err
	}
	DedupOwners(ctx, subMeta, true)
	if err := projection.ToParent(sub, parent); err != nil {
		return nil, err
	}
	updated, err := owners.ToParent(subMeta.GetManagedFields())
	if err != nil {
		return nil, err
	}
	owned.SetManagedFields(updated)
	return parent, nil
}

// requestVersion is the version of the type in the request's path.
func (t *Type) requestVersion(ctx context.Context) schema.GroupVersion {
	if info, ok := genericapirequest.RequestInfoFrom(ctx); ok {
		return schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	}
	return t.StorageVersion
}
