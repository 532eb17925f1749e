package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

// immortalNamespaces cannot be deleted: clients of every kind rely on them.
var immortalNamespaces = map[string]bool{
	metav1.NamespaceDefault: true, metav1.NamespaceSystem: true, metav1.NamespacePublic: true,
}

// NamespaceLifecycle is kube-apiserver's admission plugin of this name, over a Store: it refuses new objects in a namespace
// that does not exist or is being deleted, and the deletion of the namespaces that clients rely on.
type NamespaceLifecycle struct{ Store resources.Reader }

var _ admission.MutationInterface = NamespaceLifecycle{}

// Handles implements admission.Interface.
func (NamespaceLifecycle) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update || op == admission.Delete
}

// Admit implements admission.MutationInterface. It changes nothing, and comes first so that other plugins do no useless
// work.
func (p NamespaceLifecycle) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	isNamespace := a.GetKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
	if isNamespace && a.GetOperation() == admission.Delete && immortalNamespaces[a.GetName()] {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), errors.New("this namespace may not be deleted"))
	}
	// An object whose namespace is gone can be changed, or it would keep its finalizers for ever. A review of access concerns
	// a namespace, whether it exists or not.
	if isNamespace || a.GetNamespace() == "" || a.GetOperation() != admission.Create ||
		a.GetResource().GroupResource() == (schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}) {
		return nil
	}
	key := resources.Key{Resource: "namespaces", Name: a.GetNamespace()}
	ns, err := p.Store.Get(ctx, key, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		// Another server may have created it a moment ago.
		ns, err = p.Store.Get(ctx, key, resources.At{Match: resources.MostRecent})
	}
	if errors.Is(err, resources.ErrNotFound) {
		if why := content.IsPathSegmentName(a.GetNamespace()); len(why) > 0 { // kube-apiserver gets the namespace from itself, and fails
			return apierrors.NewInternalError(fmt.Errorf("invalid resource name %q: %v", a.GetNamespace(), why))
		}
		return apierrors.NewNotFound(corev1.Resource("namespaces"), a.GetNamespace())
	}
	if err != nil {
		return err
	}
	if gjson.GetBytes(ns.Data, "status.phase").Str != string(corev1.NamespaceTerminating) {
		return nil
	}
	return terminatingError(a)
}

func terminatingError(a admission.Attributes) error {
	err := admission.NewForbidden(a, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.GetNamespace()))
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", a.GetNamespace()),
			Field: "metadata.namespace"})
	}
	return err
}
