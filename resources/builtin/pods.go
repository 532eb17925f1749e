package builtin

import (
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"github.com/rowlock/rowlock/resources"
)

func pods(nodes, budgets *resources.Type, p Parts) *resources.Type {
	t := define[core.Pod, core.PodList](coreV1, "pods", pod.Strategy,
		short("po"), in("all"), selectBy(pod.GetAttrs), returnsDeleted,
		status(pod.StatusStrategy),
		part("ephemeralcontainers", pod.EphemeralContainersStrategy, "get", "patch", "update"),
		part("resize", pod.ResizeStrategy, "get", "patch", "update"))
	t.Indexed = "spec.nodeName"
	// Upstream resets no fields for these two, although their strategies inherit a list.
	t.Subresources["ephemeralcontainers"].ResetFields = nil
	t.Subresources["resize"].ResetFields = nil

	with(&resources.Subresource{
		Name: "binding", Kind: coreV1.WithKind("Binding"), Verbs: []string{"create"},
		Complete: checkBinding, Create: bind(t), KeepMeta: true,
	})(t)
	with(&resources.Subresource{
		Name: "eviction", Kind: policyv1.SchemeGroupVersion.WithKind("Eviction"), Verbs: []string{"create"},
		OlderVersions: []schema.GroupVersion{policyv1beta1.SchemeGroupVersion}, Complete: checkEviction, Create: evict(t, budgets),
	})(t)
	for _, sub := range podConnections(t, nodes, p) {
		with(sub)(t)
	}
	return t
}
