package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// A namespace is deleted with its content, and with nothing else.
func TestNamespace(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.namespace("doomed")
	c.thing("a", in("doomed"))
	secret := c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "doomed"}})
	elsewhere := c.thing("a")
	c.delete(ns, background)
	c.gone(ns)
	if c.get(secret.Key) != nil || c.get(resources.Key{Resource: "configmaps", Namespace: "doomed", Name: "a"}) != nil {
		t.Error("the namespace ended before what was in it")
	}
	c.stays(elsewhere)
}

// A namespace that was deleted while no controller ran is emptied at the start.
func TestNamespaceDeletedBefore(t *testing.T) {
	c := newCluster(t)
	ns := c.namespace("doomed")
	c.thing("a", in("doomed"))
	c.delete(ns, background)
	c.start()
	c.gone(ns)
}

// Objects that finalizers keep also keep the namespace, and its conditions report them in kube-controller-manager's words.
func TestNamespaceWaitsForFinalizers(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.namespace("doomed")
	kept := c.thing("kept", in("doomed"), withFinalizer("example.com/one"), withFinalizer("example.com/two"))
	also := c.thing("also", in("doomed"), withFinalizer("example.com/one"))
	c.thing("free", in("doomed"))
	c.delete(ns, background)
	c.untilConditions(ns, []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		"NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 2 resource instances",
		"NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: " +
			"example.com/one in 2 resource instances, example.com/two in 1 resource instances",
	})
	c.edit(also, withoutFinalizers)
	c.untilConditions(ns, []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		"NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		"NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: " +
			"example.com/one in 1 resource instances, example.com/two in 1 resource instances",
	})
	c.edit(kept, withoutFinalizers)
	c.gone(ns)
}

func (c *cluster) untilConditions(ns *resources.Object, want []string) {
	c.Helper()
	c.until("conditions", ns.Key, func(o *resources.Object) bool {
		var got []string
		if o == nil {
			c.Fatal("the namespace is gone")
		}
		for _, cond := range gjson.GetBytes(o.Data, "status.conditions").Array() {
			got = append(got, fmt.Sprintf("%s %s %s: %s", cond.Get("type"), cond.Get("status"), cond.Get("reason"), cond.Get("message")))
		}
		return cmp.Equal(want, got)
	})
}

// Pods are deleted before all other objects (KEP-5080).
func TestNamespacePodsFirst(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.namespace("doomed")
	pod := c.create("pods", &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "doomed", Finalizers: []string{"example.com/keep"}},
		Spec:       podSpec()})
	other := c.thing("other", in("doomed"))
	c.delete(ns, background)
	c.until("its deletion", pod.Key, isDeleting)
	c.untilConditions(ns, []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		"NamespaceContentRemaining False ContentRemoved: All content successfully removed",
		"NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
	})
	c.stays(other)
	c.edit(pod, withoutFinalizers)
	c.gone(ns)
	if c.get(other.Key) != nil {
		t.Error("the namespace ended before what was in it")
	}
}

// A pod that its node does not end in time is reported, and the namespace waits for it.
func TestNamespaceStuckPod(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.namespace("doomed")
	spec := podSpec()
	spec.NodeName, spec.TerminationGracePeriodSeconds = "silent", ptr(int64(1))
	pod := c.create("pods", &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "doomed"}, Spec: spec})
	c.delete(ns, background)
	c.untilConditions(ns, []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: " +
			"unexpected items still remain in namespace: doomed for gvr: /v1, Resource=pods",
		"NamespaceContentRemaining False ContentRemoved: All content successfully removed",
		"NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
	})
	typ := c.typeOf("pods")
	r := resources.DeleteRequest{Type: typ, Name: "pod", Options: &metav1.DeleteOptions{GracePeriodSeconds: ptr(int64(0))}}
	if _, err := c.pipeline.Delete(resources.APIServer.Request(c.ctx, "delete", typ, typ.KeyOf("doomed", "pod")), &r); err != nil {
		t.Fatal(err)
	}
	c.gone(pod, ns)
}

func podSpec() core.PodSpec {
	return core.PodSpec{RestartPolicy: core.RestartPolicyAlways, DNSPolicy: core.DNSClusterFirst,
		TerminationGracePeriodSeconds: ptr(int64(30)), SecurityContext: &core.PodSecurityContext{},
		Containers: []core.Container{{Name: "c", Image: "i", ImagePullPolicy: core.PullAlways, TerminationMessagePolicy: core.TerminationMessageReadFile}}}
}

// The namespace loses only the finalizer of this controller; another finalizer keeps it, though it is empty.
func TestNamespaceOtherFinalizer(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.create("namespaces", &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "doomed"},
		Spec: core.NamespaceSpec{Finalizers: []core.FinalizerName{"example.com/other"}}})
	content := c.thing("a", in("doomed"))
	c.delete(ns, background)
	c.gone(content)
	c.until("the other finalizer alone", ns.Key, func(o *resources.Object) bool {
		return gjson.GetBytes(o.Data, "spec.finalizers").Raw == `["example.com/other"]`
	})
}

// The name of a deleted namespace is free: objects in a later namespace of the name are left alone.
func TestNamespaceAgain(t *testing.T) {
	c := newCluster(t)
	c.start()
	for range 20 {
		ns := c.namespace("again")
		c.stays(c.thing("a", in("again")))
		c.delete(ns, background)
		c.gone(ns)
	}
	c.namespace("again")
	c.stays(c.thing("a", in("again")))
}

// A namespace that was removed and created again while it was being emptied is another one, and is left alone.
func TestNamespaceReplacedMeanwhile(t *testing.T) {
	c := newCluster(t)
	store := &meddler{Store: c.store, resource: "secrets"}
	c.theirs = store
	c.start()
	c.settle()
	ns := c.namespace("doomed")
	made := make(chan *resources.Object, 1)
	meddle := func() {
		typ := c.typeOf("namespaces")
		r := resources.UpdateRequest{Type: typ, Name: "doomed",
			Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
				obj := existing.DeepCopyObject().(*core.Namespace)
				obj.Spec.Finalizers = nil
				return obj, nil
			}}
		if _, _, err := c.pipeline.Update(resources.APIServer.Request(c.ctx, "update", typ, typ.KeyOf("", "doomed"), "finalize"), &r); err != nil {
			t.Error(err)
		}
		c.namespace("doomed")
		made <- c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "doomed"}})
	}
	store.meddle.Store(&meddle)
	c.delete(ns, background)
	secret := <-made
	c.gone(ns)
	c.stays(secret)
}

// A create that was admitted before the end of the namespace, and is stored after it, leaves no object behind.
func TestNamespaceStraggler(t *testing.T) {
	c := newCluster(t)
	c.start()
	ns := c.namespace("doomed")
	c.delete(ns, background)
	c.gone(ns)
	c.gone(c.thing("straggler", in("doomed")))
}

// refuseDeletion makes deletions of a type's objects fail with the error that refuse returns for their names.
func (c *cluster) refuseDeletion(resource string, refuse func(name string) error) {
	groups := builtin.Groups()
	for _, g := range groups {
		for _, v := range g.Versions {
			for _, typ := range v.Types {
				if typ.ResourceName() == resource {
					typ.BeforeDelete = func(_ context.Context, name string, _ *metav1.DeleteOptions) error { return refuse(name) }
				}
			}
		}
	}
	c.registry.SetGroups(groups)
}

// If the objects of one type cannot be deleted, those of others are, and the type is retried.
func TestNamespaceFailure(t *testing.T) {
	c := newCluster(t)
	var broken atomic.Bool
	broken.Store(true)
	c.refuseDeletion("secrets", func(string) error {
		if broken.Load() {
			return errors.New("out of order")
		}
		return nil
	})
	c.start()
	ns := c.namespace("doomed")
	c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "doomed"}})
	free := c.create("services", &core.Service{ObjectMeta: metav1.ObjectMeta{Name: "free", Namespace: "doomed"},
		Spec: core.ServiceSpec{Type: core.ServiceTypeExternalName, ExternalName: "example.com", SessionAffinity: core.ServiceAffinityNone}})
	c.delete(ns, background)
	c.gone(free)
	c.untilConditions(ns, []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: out of order",
		"NamespaceContentRemaining False ContentRemoved: All content successfully removed",
		"NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
	})
	broken.Store(false)
	c.gone(ns)
}

// A Pod whose deletion is refused keeps the namespace, and no other object in it.
func TestNamespacePodRefused(t *testing.T) {
	c := newCluster(t)
	var broken atomic.Bool
	broken.Store(true)
	c.refuseDeletion("pods", func(string) error {
		if broken.Load() {
			return errors.New("not now")
		}
		return nil
	})
	c.start()
	ns := c.namespace("doomed")
	pod := c.create("pods", &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "doomed"}, Spec: podSpec()})
	other := c.thing("other", in("doomed"))
	kept := c.thing("kept", in("doomed"), withFinalizer("example.com/one"))
	c.delete(ns, background)
	c.gone(other)
	c.untilConditions(ns, []string{
		"NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
		"NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
		"NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: not now",
		"NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		"NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: " +
			"example.com/one in 1 resource instances",
	})
	c.stays(pod)
	broken.Store(false)
	c.edit(kept, withoutFinalizers)
	c.gone(ns)
}

// The condition shows the error of the first object by name, also when that of another one comes first.
func TestNamespaceFirstFailure(t *testing.T) {
	c := newCluster(t)
	var broken atomic.Bool
	broken.Store(true)
	failed := make(chan struct{})
	once := sync.OnceFunc(func() { close(failed) })
	c.refuseDeletion("secrets", func(name string) error {
		if name == "a" {
			<-failed
		} else {
			defer once()
		}
		if broken.Load() {
			return fmt.Errorf("%s is out of order", name)
		}
		return nil
	})
	var first string
	ns := c.namespace("doomed")
	for _, name := range []string{"a", "b"} {
		c.create("secrets", &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "doomed"}})
	}
	c.delete(ns, background)
	c.start()
	c.until("a failure", ns.Key, func(o *resources.Object) bool {
		first = gjson.GetBytes(o.Data, `status.conditions.#(type=="NamespaceDeletionContentFailure").message`).Str
		return first != ""
	})
	if got, want := first, "Failed to delete all resource types, 1 remaining: a is out of order"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	broken.Store(false)
	c.gone(ns)
}

// A namespace with many objects is deleted, with an event for each of them.
func TestNamespaceOfMany(t *testing.T) {
	const many = 2000
	c := newCluster(t)
	c.start()
	ns := c.namespace("doomed")
	for i := range many / 100 {
		var writes []resources.Write
		for j := range 100 {
			writes = append(writes, c.draft(fmt.Sprint("m-", i, "-", j), "doomed"))
		}
		if _, err := c.store.Commit(c.ctx, writes...); err != nil {
			t.Fatal(err)
		}
	}
	c.delete(ns, background)
	c.gone(ns)
	names := c.ends("configmaps", ns.Revision)
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != many {
		t.Errorf("%d of %d objects ended", n, many)
	}
}

func (c *cluster) draft(name, namespace string) resources.Write {
	t := c.typeOf("configmaps")
	var obj runtime.Object = &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}
	d, err := t.NewDraft(c.Context(), obj)
	if err != nil {
		c.Fatal(err)
	}
	return resources.Write{Op: resources.Create, Key: t.KeyOf(namespace, name), Draft: d}
}
