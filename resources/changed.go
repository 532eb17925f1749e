package resources

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// changed is the existing object and the new one, after mutating admission. Both are nil if the update repeats one that
// changed nothing.
func (u update) changed(ctx context.Context, live *Object, again *repeat) (existing, obj runtime.Object, err error) {
	if again.known(u.Type) {
		if existing, obj, err = u.repeated(ctx, live, again); err != nil || obj == nil {
			return nil, nil, err
		}
	} else {
		if existing, err = u.existing(ctx, live); err != nil {
			return nil, nil, err
		}
		if u.projection() != nil {
			obj, err = u.changedProjection(ctx, existing, live)
			return existing, obj, err
		}
		if obj, err = u.change(ctx, existing, live); err != nil {
			return nil, nil, err
		}
		if err := u.p.admit(ctx, again.observed(u.admitted(obj, existing))); err != nil {
			return nil, nil, err
		}
	}
	if err := u.Type.permit(ctx, obj, existing); err != nil {
		return nil, nil, err
	}
	if m, err := meta.Accessor(obj); err == nil {
		DedupOwners(ctx, m, true)
	}
	return existing, obj, nil
}

// existing is the live object in the hub form, if its UID is the one that the request requires.
func (u update) existing(ctx context.Context, live *Object) (runtime.Object, error) {
	existing, err := u.decode(ctx, live)
	if err != nil {
		return nil, err
	}
	old, err := meta.Accessor(existing)
	if err != nil {
		return nil, err
	}
	if u.UID != "" && old.GetUID() != u.UID {
		return nil, apierrors.NewConflict(u.Type.RequestResource(ctx), u.Name, u.uidPreconditionError(live.Key, old.GetUID()))
	}
	return existing, nil
}
