package resources

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

func (r *DeleteRequest) preconditionRevision() *string {
	if r.Options.Preconditions == nil {
		return nil
	}
	return r.Options.Preconditions.ResourceVersion
}

// pending reports whether the object is being deleted already, within a grace period that the request does not shorten: the request then
// changes nothing. Errors: those of the preconditions. Admission is not called in either case, as in kube-apiserver.
func (r *DeleteRequest) pending(ctx context.Context, obj runtime.Object, m metav1.Object) (bool, error) {
	if r.terminates() || m.GetDeletionTimestamp() == nil && r.Options.Preconditions == nil && !r.fills() {
		return false, nil
	}
	options := r.Options.DeepCopy()
	_, pending, err := rest.BeforeDelete(r.Type.DeleteStrategy, ctx, obj.DeepCopyObject(), options) // BeforeDelete writes into both
	if r.single && options.GracePeriodSeconds != nil {
		sent := *r.sent
		sent.GracePeriodSeconds = options.GracePeriodSeconds
		r.sent = &sent
	}
	return pending, err
}

// fills reports whether the strategy may write another grace period into the options, which admission then sees.
func (r *DeleteRequest) fills() bool {
	_, graceful := r.Type.DeleteStrategy.(rest.RESTGracefulDeleteStrategy)
	return r.single && (graceful || ptr.Deref(r.Options.GracePeriodSeconds, 0) < 0)
}

// terminates tells whether the type's own first phase of deletion (Terminate) checks the preconditions. In the deletion of a collection the general
// rules do, as in kube-apiserver.
func (r *DeleteRequest) terminates() bool { return r.Type.Terminate != nil && r.single }

// checkTerminated checks the preconditions where the type does (terminates), with kube-apiserver's texts for such types.
func (r *DeleteRequest) checkTerminated(ctx context.Context, m metav1.Object) error {
	p := r.Options.Preconditions
	if p == nil {
		return nil
	}
	resource, failed := r.Type.RequestResource(ctx), "Precondition failed"
	if r.Type.TerminatesPlainly {
		failed = "precondition failed"
	}
	if p.UID != nil && *p.UID != m.GetUID() {
		return apierrors.NewConflict(resource, r.Name,
			fmt.Errorf("%s: UID in precondition: %v, UID in object meta: %v", failed, *p.UID, m.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
		return apierrors.NewConflict(resource, r.Name,
			fmt.Errorf("%s: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", failed, *p.ResourceVersion, m.GetResourceVersion()))
	}
	return nil
}

// showUID sets the object's UID as a precondition in the options that admission sees, as kube-apiserver does for types with their own
// first phase of deletion (Terminate).
func (r *DeleteRequest) showUID(uid types.UID) {
	r.sent = r.sent.DeepCopy()
	if r.sent.Preconditions == nil {
		r.sent.Preconditions = &metav1.Preconditions{}
	}
	r.sent.Preconditions.UID = &uid
}
