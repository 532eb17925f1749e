package authz_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authz"
)

func nodeUser(name string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + name, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
}

// podOn returns a Pod that refers to an object of each kind.
func podOn(node, name, refers string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: refers,
		Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: refers}}}}}},
		Volumes: []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: refers}}},
			{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: refers}}}}}}
}

func volume(name, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "a", Name: claim},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h",
			NodePublishSecretRef: &corev1.SecretReference{Namespace: "a", Name: "of-" + name}}}}}
}

func attachment(name, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: node}}
}

func askAsNode(node, verb, group, resource, namespace, name string) authorizer.AttributesRecord {
	q := ask(nodeUser(node), verb, namespace, resource, name)
	q.APIGroup = group
	return q
}

// A kubelet may read the objects that Pods on its node refer to, as long as the Pods exist, and none that only Pods on other nodes refer to.
func TestNodesReadWhatTheirPodsNeed(t *testing.T) {
	f := newFixture(t)
	a := authz.NewNode(f.store)
	pod := f.write("pods", podOn("one", "p", "x"))
	f.commit(pod, f.write("pods", podOn("two", "q", "y")), f.write("persistentvolumes", volume("vx", "x")), f.write("volumeattachments.storage.k8s.io", attachment("at", "one")))
	for _, c := range []struct {
		verb, group, resource, namespace, name string
		one, two                               bool
	}{
		{"get", "", "secrets", "a", "x", true, false}, {"watch", "", "configmaps", "a", "x", true, false}, {"list", "", "secrets", "a", "x", true, false},
		{"get", "", "secrets", "a", "y", false, true}, {"get", "", "secrets", "a", "", false, false}, {"get", "", "secrets", "b", "x", false, false},
		{"update", "", "secrets", "a", "x", false, false}, {"get", "", "persistentvolumeclaims", "a", "x", true, false},
		{"get", "", "persistentvolumes", "", "vx", true, false}, {"get", "", "secrets", "a", "of-vx", true, false},
		{"get", "storage.k8s.io", "volumeattachments", "", "at", true, false}, {"get", "", "nodes", "", "one", true, false}, {"create", "", "pods", "a", "", true, true},
		{"list", "", "services", "", "", true, true}, {"delete", "", "secrets", "a", "x", false, false},
	} {
		for node, want := range map[string]bool{"one": c.one, "two": c.two} {
			if got := allowed(t, a, askAsNode(node, c.verb, c.group, c.resource, c.namespace, c.name)); got != want {
				t.Errorf("%s %s %s %s/%s: %v", node, c.verb, c.resource, c.namespace, c.name, got)
			}
		}
	}
	ann := askAsNode("one", "get", "", "secrets", "a", "x")
	ann.User = &user.DefaultInfo{Name: "ann"}
	if allowed(t, a, ann) {
		t.Error("somebody else reads a Secret as if they were a node")
	}
	f.commit(f.now(resources.Delete, pod))
	for _, q := range []authorizer.AttributesRecord{askAsNode("one", "get", "", "secrets", "a", "x"), askAsNode("one", "get", "", "persistentvolumes", "", "vx")} {
		if allowed(t, a, q) {
			t.Errorf("%s of a Pod that is gone", q.Resource)
		}
	}
}

// A graph that follows the store equals one that is newly built from it, whatever objects came and went.
func TestGraphOfNodesFollowsTheStore(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), rand.New(rand.NewPCG(1, 2))
	one := func(from ...string) string { return from[r.IntN(len(from))] }
	followed, there, pods := authz.NewNode(f.store), map[string]bool{}, map[string]*corev1.Pod{}
	for range 120 {
		var obj runtime.Object
		resource, name := one("pods", "pods", "persistentvolumes", "volumeattachments.storage.k8s.io"), one("1", "2", "3")
		switch resource {
		case "pods":
			pod := podOn(one("one", "two", ""), name, one("x", "y"))
			if before := pods[name]; before != nil && there[resource+name] { // a Pod is bound once, and its references do not change
				node := before.Spec.NodeName
				if pod = before.DeepCopy(); node == "" {
					pod.Spec.NodeName = one("one", "two")
				}
			}
			pods[name], obj = pod, pod
		case "persistentvolumes":
			obj = volume(name, one("x", "y"))
		default:
			obj = attachment(name, one("one", "two"))
		}
		w, key := f.write(resource, obj), resource+name
		switch {
		case !there[key]:
			there[key] = true
		case r.IntN(2) == 0:
			w, there[key] = f.now(resources.Delete, w), false
		default:
			w = f.now(resources.Update, w)
		}
		f.commit(w)
		drawn := authz.NewNode(f.store)
		for _, node := range []string{"one", "two"} {
			for _, q := range questionsOfNode(node) {
				if got, want := allowed(t, followed, q), allowed(t, drawn, q); got != want {
					t.Fatalf("after %v of %s: %s may %s %s/%s: %v, by what is stored %v", w.Op, key, node, q.Verb, q.Resource, q.Name, got, want)
				}
			}
		}
	}
}

func questionsOfNode(node string) (all []authorizer.AttributesRecord) {
	for _, name := range []string{"x", "y", "1", "2", "3"} {
		for _, resource := range []string{"secrets", "configmaps", "persistentvolumeclaims"} {
			all = append(all, askAsNode(node, "get", "", resource, "a", name))
		}
		all = append(all, askAsNode(node, "get", "", "persistentvolumes", "", name), askAsNode(node, "get", "", "secrets", "a", fmt.Sprint("of-", name)),
			askAsNode(node, "get", "storage.k8s.io", "volumeattachments", "", name))
	}
	return all
}
