package resources

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// CollectionRequest is the deletion of the objects of a list ("Collections" of the API concepts page).
type CollectionRequest struct {
	Type *Type
	// Decode, when set, decodes the body: it sets Options, and may set Select.
	Decode  func() error
	Options *metav1.DeleteOptions
	// Select returns the objects.
	Select func() ([]*Object, error)
}

// DeleteCollection deletes the objects one by one, with a copy of the options for each, and ends at the first error;
// objects that are gone already are skipped. Admission sees each deletion; see Pipeline. The audit records one event
// for the whole request.
//
// Errors are API status errors, or those of the Store that the caller maps.
func (p *Pipeline) DeleteCollection(ctx context.Context, r *CollectionRequest) error {
	ctx, err := p.begin(ctx)
	if err != nil {
		return err
	}
	err = p.deleteCollection(ctx, r)
	p.written(ctx, AuditEvent{Type: r.Type, DryRun: r.Options != nil && dryrun.IsDryRun(r.Options.DryRun), Err: err})
	return err
}

// DeleteInstances deletes the objects of a definition that is being deleted, as DeleteCollection does, but without authorization,
// admission and audit. kube-apiserver deletes them in its storage, too: the deletion of the definition was reviewed, and a webhook that
// is down would keep the definition for ever.
//
// Errors are those of DeleteCollection.
func (p *Pipeline) DeleteInstances(ctx context.Context, r *CollectionRequest) error {
	return p.within.inner.DeleteCollection(ctx, r)
}

func (p *Pipeline) deleteCollection(ctx context.Context, r *CollectionRequest) error {
	objects, err := p.selected(ctx, r)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		one := DeleteRequest{Type: r.Type, Name: obj.Name, Options: r.Options.DeepCopy(), sent: r.Options}
		ctx := genericapirequest.WithNamespace(ctx, obj.Namespace)
		if _, err := p.deleteTwice(ctx, &one, obj.Key); err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// selected returns the objects to be deleted, if the user is authorized.
func (p *Pipeline) selected(ctx context.Context, r *CollectionRequest) ([]*Object, error) {
	if err := p.authorize(ctx); err != nil {
		return nil, err
	}
	if r.Decode != nil {
		if err := r.Decode(); err != nil {
			return nil, err
		}
	}
	objects, err := r.Select()
	if err != nil || r.Type.BeforeDelete == nil {
		return objects, err
	}
	return objects, r.Type.BeforeDelete(ctx, "", r.Options)
}
