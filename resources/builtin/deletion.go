package builtin

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/pkg/registry/batch/job"

	"github.com/rowlock/rowlock/resources"
)

// The types with their own rules of deletion.

// namespaceLife: the first delete of a namespace makes it Terminating, and it stays until spec.finalizers is empty. An
// update of finalize that empties them removes the namespace if metadata has no finalizers; otherwise another delete is
// needed.
func namespaceLife(t *resources.Type) {
	t.ServedVerbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	t.Terminate = func(obj runtime.Object, now metav1.Time) bool {
		ns, ok := obj.(*core.Namespace)
		if !ok {
			return false
		}
		if ns.DeletionTimestamp == nil {
			ns.DeletionTimestamp = &now
			ns.Status.Phase = core.NamespaceTerminating
			return true
		}
		return len(ns.Spec.Finalizers) > 0
	}
	t.ShouldDeleteDuringUpdate = func(_ context.Context, obj, _ runtime.Object) bool {
		ns, ok := obj.(*core.Namespace)
		return ok && len(ns.Spec.Finalizers) == 0
	}
}

// warnOfOrphans warns that the pods of a Job outlive it by default, which surprises users.
func warnOfOrphans(t *resources.Type) {
	t.BeforeDelete = func(ctx context.Context, _ string, o *metav1.DeleteOptions) error {
		//nolint:staticcheck // OrphanDependents is deprecated, and still served
		if o.PropagationPolicy == nil && o.OrphanDependents == nil && job.Strategy.DefaultGarbageCollectionPolicy(ctx) == rest.OrphanDependents {
			warning.AddWarning(ctx, "", orphansWarning)
		}
		return nil
	}
}

const orphansWarning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// keepSystemClasses refuses the deletion of the system's own priority classes.
func keepSystemClasses(t *resources.Type) {
	t.BeforeDelete = func(_ context.Context, name string, _ *metav1.DeleteOptions) error {
		if slices.Contains(schedulingv1.SystemPriorityClassNames(), name) {
			return apierrors.NewForbidden(t.GroupResource, name, errors.New("this is a system priority class and cannot be deleted"))
		}
		return nil
	}
}
