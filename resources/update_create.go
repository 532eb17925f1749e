package resources

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/registry/rest"
)

// prepareCreate is the update of an object that does not exist.
func (u update) prepareCreate(ctx context.Context) ([]Write, error) {
	resource := u.Type.RequestResource(ctx)
	if u.projection() != nil || !u.ForceCreate && !u.Strategy.AllowCreateOnUpdate(ctx) {
		return nil, apierrors.NewNotFound(resource, u.Name)
	}
	if u.UID != "" { // before admission and authorization, as for an existing object
		key, err := u.Type.RequestKey(ctx, u.Name)
		if err != nil {
			return nil, err
		}
		return nil, apierrors.NewConflict(resource, u.Name, u.uidPreconditionError(key, ""))
	}
	obj, err := u.change(ctx, u.Type.New(), nil)
	if err != nil {
		return nil, err
	}
	if u.Type.BeforeCreate != nil {
		if err := u.Type.BeforeCreate(ctx, u.Name); err != nil {
			return nil, err
		}
	}
	a := admitted{t: u.Type, obj: obj, op: admission.Create, options: createOptionsOf(u.Options), dryRun: u.DryRun}
	if err := u.p.admit(ctx, a); err != nil {
		return nil, err
	}
	if err := u.Type.permit(ctx, obj, u.Type.New()); err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	DedupOwners(ctx, m, true)
	if _, err := revisionOfObject(m.GetResourceVersion()); err != nil {
		return nil, err
	}
	rest.WipeObjectMetaSystemFields(m)
	u.Type.fill(m)
	// A create through the status allocates nothing, as with kube-apiserver.
	return prepareCreate(ctx, u.p.store, u.Type, obj, u.whole, func() error {
		if err := u.p.authorizeCreate(ctx); err != nil {
			return err
		}
		return u.p.validateNew(ctx, a, u.accepted)
	})
}
