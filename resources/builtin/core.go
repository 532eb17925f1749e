package builtin

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// coreV1 is the one version of the core group.
var coreV1 = v1.SchemeGroupVersion

// DefaultEventTTL is how long kube-apiserver keeps an Event, its --event-ttl.
const DefaultEventTTL = time.Hour

// shared are the types that the rules of other types read.
type shared struct {
	namespaces, events, budgets, services, endpointSlices, validatingWebhooks, mutatingWebhooks *resources.Type
}

func coreGroup(p Parts, s shared) resources.GroupSpec {
	nodes := nodes(p.Kubelets)
	pods := pods(nodes, s.budgets, p)
	secrets := define[core.Secret, core.SecretList](coreV1, "secrets", secret.Strategy, selectBy(secret.GetAttrs), nullsAreEmpty)
	with(serviceProxy(s.services, pods, s.endpointSlices, p.Services.family()))(s.services)
	return single(coreV1,
		bindings(pods),
		componentStatuses(),
		define[core.ConfigMap, core.ConfigMapList](coreV1, "configmaps", configmap.Strategy, short("cm"), selectBy(configmap.GetAttrs), nullsAreEmpty),
		define[core.Endpoints, core.EndpointsList](coreV1, "endpoints", endpoint.Strategy, short("ep")),
		s.events,
		define[core.LimitRange, core.LimitRangeList](coreV1, "limitranges", limitrange.Strategy,
			short("limits"), table(rest.NewDefaultTableConvertor)),
		s.namespaces,
		nodes,
		define[core.PersistentVolume, core.PersistentVolumeList](coreV1, "persistentvolumes", persistentvolume.Strategy,
			short("pv"), selectBy(persistentvolume.GetAttrs), returnsDeleted, status(persistentvolume.StatusStrategy)),
		define[core.PersistentVolumeClaim, core.PersistentVolumeClaimList](coreV1, "persistentvolumeclaims", persistentvolumeclaim.Strategy,
			short("pvc"), selectBy(persistentvolumeclaim.GetAttrs), returnsDeleted, status(persistentvolumeclaim.StatusStrategy)),
		pods,
		define[core.PodTemplate, core.PodTemplateList](coreV1, "podtemplates", podtemplate.Strategy, returnsDeleted),
		define[core.ReplicationController, core.ReplicationControllerList](coreV1, "replicationcontrollers", replicationcontroller.Strategy,
			short("rc"), in("all"), selectBy(replicationcontroller.GetAttrs), status(replicationcontroller.StatusStrategy),
			scalable(controllerScale, "v1")),
		define[core.ResourceQuota, core.ResourceQuotaList](coreV1, "resourcequotas", resourcequota.Strategy,
			short("quota"), returnsDeleted, status(resourcequota.StatusStrategy)),
		secrets,
		s.services,
		serviceAccounts(p, boundTypes{pods, secrets, nodes, s.validatingWebhooks, s.mutatingWebhooks}),
	)
}

// events are one type that two groups show, in their own versions. Each event is kept for a time after its last write, see Parts.EventTTL.
func events(asked *time.Duration) *resources.Type {
	ttl := ptr.Deref(asked, DefaultEventTTL).Truncate(time.Second) // as in kube-apiserver, where less than a second is 0
	return define[core.Event, core.EventList](coreV1, "events", event.Strategy,
		short("ev"), selectBy(event.GetAttrs), clockColumns,
		func(t *resources.Type) {
			t.Uncached = true
			t.TTL = func(runtime.Object) time.Duration { return ttl }
		})
}

func namespaces() *resources.Type {
	return define[core.Namespace, core.NamespaceList](coreV1, "namespaces", namespace.Strategy,
		short("ns"), selectBy(namespace.GetAttrs), returnsDeleted, namespaceLife,
		status(namespace.StatusStrategy),
		part("finalize", namespace.FinalizeStrategy, "update"))
}

func nodes(kubelets *Kubelets) *resources.Type {
	t := define[core.Node, core.NodeList](coreV1, "nodes", node.Strategy,
		short("no"), selectBy(node.GetAttrs), status(node.StatusStrategy))
	with(nodeProxy(t, kubelets))(t)
	return t
}

func serviceAccounts(p Parts, bound boundTypes) *resources.Type {
	t := define[core.ServiceAccount, core.ServiceAccountList](coreV1, "serviceaccounts", serviceaccount.Strategy,
		short("sa"), returnsDeleted)
	with(tokenRequest(p, t, bound))(t)
	return t
}

func controllerScale(rc *core.ReplicationController) scaled {
	if rc.Spec.Replicas == nil {
		rc.Spec.Replicas = new(int32)
	}
	return scaled{rc.Spec.Replicas, rc.Status.Replicas, func() (labels.Selector, error) {
		return labels.SelectorFromSet(rc.Spec.Selector), nil
	}}
}
