package builtin

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"

	"github.com/rowlock/rowlock/resources"
)

func appsGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "apps", Version: "v1"}
	return single(v1,
		define[apps.ControllerRevision, apps.ControllerRevisionList](v1, "controllerrevisions", controllerrevision.Strategy),
		define[apps.DaemonSet, apps.DaemonSetList](v1, "daemonsets", daemonset.Strategy,
			short("ds"), in("all"), status(daemonset.StatusStrategy), fieldAnnotation(appsv1.DeprecatedTemplateGeneration)),
		define[apps.Deployment, apps.DeploymentList](v1, "deployments", deployment.Strategy,
			short("deploy"), in("all"), status(deployment.StatusStrategy), fieldAnnotation(appsv1.DeprecatedRollbackTo),
			scalable(func(d *apps.Deployment) scaled {
				return scaled{&d.Spec.Replicas, d.Status.Replicas, labelSelector(d.Spec.Selector)}
			}, "v1beta1", "v1beta2", "v1")),
		define[apps.ReplicaSet, apps.ReplicaSetList](v1, "replicasets", replicaset.Strategy,
			short("rs"), in("all"), selectBy(replicaset.GetAttrs), status(replicaset.StatusStrategy),
			scalable(func(r *apps.ReplicaSet) scaled {
				return scaled{&r.Spec.Replicas, r.Status.Replicas, labelSelector(r.Spec.Selector)}
			}, "v1beta2", "v1")),
		define[apps.StatefulSet, apps.StatefulSetList](v1, "statefulsets", statefulset.Strategy,
			short("sts"), in("all"), status(statefulset.StatusStrategy),
			scalable(func(s *apps.StatefulSet) scaled {
				return scaled{&s.Spec.Replicas, s.Status.Replicas, labelSelector(s.Spec.Selector)}
			}, "v1beta1", "v1beta2", "v1")),
	)
}

func fieldAnnotation(name string) option { return func(t *resources.Type) { t.FieldAnnotation = name } }

func labelSelector(s *metav1.LabelSelector) func() (labels.Selector, error) {
	return func() (labels.Selector, error) { return metav1.LabelSelectorAsSelector(s) }
}
