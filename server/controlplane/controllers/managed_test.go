package controllers_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// entry is an entry of managedFields.
func entry(manager, version, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields), Time: &metav1.Time{}}
}

// managed returns the fields that a manager owns through a subresource.
func managed(o *resources.Object, manager, subresource string) (fields string) {
	for _, e := range gjson.GetBytes(o.Data, "metadata.managedFields").Array() {
		if e.Get("manager").Str == manager && e.Get("subresource").Str == subresource {
			fields += e.Get("apiVersion").Str + " " + e.Get("fieldsV1").Raw
		}
	}
	return fields
}

// What the garbage collector removes from an object belongs to nobody any more. Entries in other versions stay.
func TestGarbageManagedFields(t *testing.T) {
	c := newCluster(t)
	c.start()
	owner := c.thing("owner")
	const spec = `{"f:spec":{"f:maxReplicas":{}}}`
	owned := `{"f:metadata":{"f:ownerReferences":{".":{},"k:{\"uid\":\"` + string(uidOf(owner)) + `\"}":{}}},"f:spec":{"f:minReplicas":{}}}`
	child := c.create("horizontalpodautoscalers.autoscaling", &autoscaling.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "child", Namespace: "ns", OwnerReferences: []metav1.OwnerReference{refTo(owner)},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("old", "autoscaling/v1", spec), entry("new", "autoscaling/v2", owned)}},
		Spec: autoscaling.HorizontalPodAutoscalerSpec{MinReplicas: ptr(int32(1)), MaxReplicas: 2,
			ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d"}}})
	if managed(child, "new", "") == "" {
		t.Fatal("the object has no managedFields")
	}
	c.delete(owner, orphan)
	c.gone(owner)
	now := c.get(child.Key)
	if got, want := managed(now, "old", ""), "autoscaling/v1 "+spec; got != want {
		t.Errorf("in the other version: %s, want %s", got, want)
	}
	if got, want := managed(now, "new", ""), `autoscaling/v2 {"f:spec":{"f:minReplicas":{}}}`; got != want {
		t.Errorf("in the storage version: %s, want %s", got, want)
	}
}

// The conditions of a namespace belong to kube-controller-manager.
func TestNamespaceManagedFields(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.create("namespaces", &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed",
		ManagedFields: []metav1.ManagedFieldsEntry{entry("creator", "v1", `{"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/metadata.name":{}}}}`)}}})
	kept := c.thing("kept", in("doomed"), withFinalizer("example.com/one"))
	c.delete(ns, background)
	c.until("the owner of the conditions", ns.Key, func(o *resources.Object) bool {
		return strings.Contains(managed(o, "kube-controller-manager", "status"), `"k:{\"type\":\"NamespaceContentRemaining\"}":{".":{}`)
	})
	c.edit(kept, withoutFinalizers)
	c.gone(ns)
}
