package controllers_test

import (
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/storagemigration"

	"github.com/rowlock/rowlock/resources"
)

// proxy creates an APIService by which another server serves a version of a built-in group.
func (c *cluster) proxy(version, group string) *resources.Object {
	c.Helper()
	return c.create("apiservices.apiregistration.k8s.io", &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
		Spec: apiregistration.APIServiceSpec{Group: group, Version: version, GroupPriorityMinimum: 100, VersionPriority: 10,
			Service: &apiregistration.ServiceReference{Namespace: "default", Name: "ext", Port: 443}}})
}

// serveLocally makes this server serve a version again.
func serveLocally(m metav1.Object) { m.(*apiregistration.APIService).Spec.Service = nil }

// ownedByHPA makes an object depend on one that this server does not have.
func ownedByHPA(version string) option {
	return func(m *core.ConfigMap) {
		m.OwnerReferences = append(m.OwnerReferences,
			metav1.OwnerReference{APIVersion: "autoscaling/" + version, Kind: "HorizontalPodAutoscaler", Name: "scaler", UID: "elsewhere"})
	}
}

func (c *cluster) autoscaler(namespace, name string, finalizers ...string) *resources.Object {
	c.Helper()
	return c.create("horizontalpodautoscalers.autoscaling", &autoscaling.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers},
		Spec:       autoscaling.HorizontalPodAutoscalerSpec{MaxReplicas: 1, ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}}})
}

// An object whose owner is in a version that another server serves is left alone, although this server knows the type and has no such owner. It is
// judged once this server serves the version.
func TestOwnerOnAnotherServer(t *testing.T) {
	for name, end := range map[string]func(*cluster, *resources.Object){
		"changed": func(c *cluster, a *resources.Object) { c.edit(a, serveLocally) },
		"deleted": func(c *cluster, a *resources.Object) { c.delete(a, background) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			v2 := c.proxy("v2", "autoscaling")
			dependent := c.thing("dependent", ownedByHPA("v2"))
			other := c.thing("other", ownedByHPA("v1")) // which this server serves
			c.start()
			c.gone(other)
			c.stays(dependent)
			owner := c.autoscaler("ns", "owner")
			second := c.thing("second", ownedBy(owner)) // in the same version, of this server's own
			c.stays(second)
			waiting := c.autoscaler("ns", "waiting")
			blocks := c.thing("blocks", blocking(waiting))
			c.delete(waiting, foreground) // it is there, so that the other server says nothing about it
			c.gone(blocks, waiting)
			c.delete(owner, background)
			c.gone(owner)
			if ref := refTo(owner); ref.APIVersion != "autoscaling/v2" {
				t.Fatalf("it refers to %s", ref.APIVersion)
			}
			c.stays(second, dependent)
			end(c, v2)
			c.gone(dependent, second)
		})
	}
}

// Objects that no client sees, because another server serves all versions of their type, do not keep a namespace. Those of a type of which this server
// serves a version are deleted with it.
func TestNamespaceWithProxiedTypes(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.proxy("v2", "autoscaling")
	mixed := c.namespace("mixed")
	seen := c.autoscaler("mixed", "seen")
	c.delete(mixed, background)
	c.gone(mixed)
	if c.get(seen.Key) != nil {
		t.Error("the namespace ended before what was in it")
	}

	waiting := c.namespace("waiting")
	kept := c.autoscaler("waiting", "kept", "example.com/kept")
	c.delete(waiting, background)
	c.until("its wait", waiting.Key, func(o *resources.Object) bool {
		return gjson.GetBytes(o.Data, `status.conditions.#(type=="NamespaceFinalizersRemaining").status`).Str == "True"
	})
	v1 := c.proxy("v1", "autoscaling") // now nobody sees the object
	c.gone(waiting)
	if c.get(kept.Key) == nil {
		t.Error("the object has lost its finalizer")
	}

	blind := c.namespace("blind")
	hidden := c.autoscaler("blind", "hidden")
	c.delete(blind, background)
	c.gone(blind)
	c.stays(hidden)
	c.edit(v1, serveLocally) // the object is one of a namespace that ended lately
	c.gone(hidden)
}

// A migration of a resource that another server serves is left to kube-controller-manager, and carried out once this server serves the resource.
func TestMigrationOfProxiedResource(t *testing.T) {
	c := newCluster(t)
	v1 := c.proxy("v1", "apps")
	c.start()
	create := func(name, group, resource string) *resources.Object {
		return c.create("storageversionmigrations.storagemigration.k8s.io", &storagemigration.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagemigration.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}}})
	}
	succeeded := func(o *resources.Object) bool {
		return gjson.GetBytes(o.Data, `status.conditions.#(type=="Succeeded").status`).Str == "True"
	}
	there := create("there", "apps", "deployments")
	here := create("here", "", "configmaps")
	c.until("its success", here.Key, succeeded)
	if now := c.get(there.Key); now.Revision != there.Revision {
		t.Errorf("it has been begun: %s", now.Data)
	}
	c.delete(v1, background)
	c.until("its success", there.Key, succeeded)
}
