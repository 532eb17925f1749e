package handlers

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
)

// project makes the object that a subresource shows of its parent, with the managedFields that concern it.
func (q *request) project(parent runtime.Object) (runtime.Object, error) {
	sub, err := q.sub.Projection.FromParent(parent)
	if err != nil {
		return nil, err
	}
	return sub, nil
}

// changeProjected changes the projected object and carries the outcome over to the parent, fields' owners included.
func (m *modification) changeProjected(ctx context.Context, existing runtime.Object) (runtime.Object, error) {
	projection := m.q.sub.Projection
	parent := existing.DeepCopyObject()
	owned, err := meta.Accessor(parent)
	if err != nil {
		return nil, err
	}
	owners := managedfields.NewScaleHandler(owned.GetManagedFields(), m.q.served.GroupVersion(), projection.ReplicasPaths())
	old, err := m.q.project(existing)
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
	sub, err := m.apply(ctx, old, func() ([]byte, error) { return m.q.projectedJSON(old) })
	if err != nil {
		return nil, err
	}
	if err := m.admit(sub, old, true); err != nil {
		return nil, err
	}
	subMeta, err := meta.Accessor(sub)
	if err != nil {
		return nil, err
	}
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

func (q *request) projectedJSON(sub runtime.Object) ([]byte, error) {
	versioned, err := q.served.Scheme.ConvertToVersion(sub, q.kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	versioned.GetObjectKind().SetGroupVersionKind(q.kind)
	return json.Marshal(versioned)
}
