package resources

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// CollectionRequest is the deletion of what a list returns ("Collections" of the API concepts page).
type CollectionRequest struct {
	Type    *Type
	Options *metav1.DeleteOptions
	// Select returns the objects.
	Select func() ([]*Object, error)
}

// DeleteCollection deletes the objects one by one, with a copy of the options for each, and ends at the first error;
// objects that are gone already are passed over. Mutating admission is asked once, for all; see Pipeline.
//
// Errors are API status errors, or those of the Store that the caller maps.
func (p *Pipeline) DeleteCollection(ctx context.Context, r *CollectionRequest) error {
	d := DeleteRequest{Type: r.Type, Options: r.Options, sent: r.Options}
	objects, err := p.selected(ctx, r, &d)
	if err != nil {
		p.written(ctx, "", nil, dryrun.IsDryRun(r.Options.DryRun), err)
		return err
	}
	for _, obj := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		one := d
		one.Name, one.Options = obj.Name, r.Options.DeepCopy()
		ctx := genericapirequest.WithNamespace(ctx, obj.Namespace)
		deleted, err := p.deleteTwice(ctx, &one, obj.Key)
		if apierrors.IsNotFound(err) || errors.Is(err, ErrNotFound) {
			continue
		}
		p.written(ctx, obj.Name, deleted.Object, dryrun.IsDryRun(r.Options.DryRun), err)
		if err != nil {
			return err
		}
	}
	return nil
}

// selected are the objects to be deleted, if the user may, and admission has nothing against it.
func (p *Pipeline) selected(ctx context.Context, r *CollectionRequest, d *DeleteRequest) ([]*Object, error) {
	if err := p.authorize(ctx); err != nil {
		return nil, err
	}
	if err := p.admit(ctx, d.admitted(nil)); err != nil {
		return nil, err
	}
	objects, err := r.Select()
	if err != nil || r.Type.BeforeDelete == nil {
		return objects, err
	}
	return objects, r.Type.BeforeDelete(ctx, "", r.Options)
}
