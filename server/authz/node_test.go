package authz_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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

// claiming lets a Pod use a ResourceClaim, another one that is made for it by the given name, and a third one for extended resources.
func claiming(pod *corev1.Pod, claim, made, extended string) *corev1.Pod {
	template := "t"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimName: &claim}, {Name: "m", ResourceClaimTemplateName: &template}}
	if made != "" {
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "m", ResourceClaimName: &made}}
	}
	if extended != "" {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: extended}
	}
	return pod
}

// debugged returns the Pod with another ephemeral container, which refers to a Secret.
func debugged(pod *corev1.Pod, secret string) *corev1.Pod {
	pod = pod.DeepCopy()
	c := corev1.EphemeralContainerCommon{Name: fmt.Sprint("e", len(pod.Spec.EphemeralContainers)), Image: "i",
		EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}}}}}
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: c})
	return pod
}

func sliceOf(name, node string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node}}
}

func certificateRequest(name, node string) *certificatesv1.PodCertificateRequest {
	return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name},
		Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "s", NodeName: types.NodeName(node)}}
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
	pod := f.write("pods", claiming(podOn("one", "p", "x"), "c", "m", "e"))
	slice, request := f.write("resourceslices.resource.k8s.io", sliceOf("sl", "one")), f.write("podcertificaterequests.certificates.k8s.io", certificateRequest("pr", "one"))
	f.commit(pod, slice, request, f.write("pods", podOn("two", "q", "y")), f.write("persistentvolumes", volume("vx", "x")), f.write("volumeattachments.storage.k8s.io", attachment("at", "one")))
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
		{"get", resourceGroup, "resourceclaims", "a", "c", true, false}, {"get", resourceGroup, "resourceclaims", "a", "m", true, false},
		{"get", resourceGroup, "resourceclaims", "a", "e", true, false}, {"get", resourceGroup, "resourceclaims", "a", "x", false, false},
		{"get", resourceGroup, "resourceslices", "", "sl", true, false}, {"update", resourceGroup, "resourceslices", "", "sl", true, false},
		{"get", "certificates.k8s.io", "podcertificaterequests", "a", "pr", true, false}, {"delete", "certificates.k8s.io", "podcertificaterequests", "a", "pr", false, false},
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
	f.commit(f.now(resources.Delete, pod), f.now(resources.Delete, slice), f.now(resources.Delete, request))
	for _, q := range []authorizer.AttributesRecord{askAsNode("one", "get", "", "secrets", "a", "x"), askAsNode("one", "get", "", "persistentvolumes", "", "vx"),
		askAsNode("one", "get", resourceGroup, "resourceclaims", "a", "m"), askAsNode("one", "get", resourceGroup, "resourceslices", "", "sl"),
		askAsNode("one", "get", "certificates.k8s.io", "podcertificaterequests", "a", "pr")} {
		if allowed(t, a, q) {
			t.Errorf("%s of a Pod that is gone, or gone itself", q.Resource)
		}
	}
}

const resourceGroup = "resource.k8s.io"

// A kubelet may read what a Pod refers to only since a change of the Pod: by an ephemeral container, or a ResourceClaim that was made for it.
func TestNodesReadWhatTheirPodsNeedLater(t *testing.T) {
	f := newFixture(t)
	a := authz.NewNode(f.store)
	pod := claiming(podOn("one", "p", "x"), "c", "", "")
	f.commit(f.write("pods", pod))
	secret, made, extended := askAsNode("one", "get", "", "secrets", "a", "y"), askAsNode("one", "get", resourceGroup, "resourceclaims", "a", "m"),
		askAsNode("one", "get", resourceGroup, "resourceclaims", "a", "e")
	for _, c := range []struct {
		change                 func()
		secret, made, extended bool
	}{
		{func() {}, false, false, false},
		{func() { pod = debugged(pod, "y") }, true, false, false},
		{func() { pod = claiming(pod, "c", "m", "") }, true, true, false},
		{func() { pod.Labels = map[string]string{"a": "b"} }, true, true, false},
		{func() { pod = claiming(debugged(pod, "z"), "c", "m", "e") }, true, true, true},
		{func() { pod.Status = corev1.PodStatus{} }, true, false, false},
	} {
		c.change()
		f.commit(f.now(resources.Update, f.write("pods", pod)))
		if s, m, e := allowed(t, a, secret), allowed(t, a, made), allowed(t, a, extended); s != c.secret || m != c.made || e != c.extended {
			t.Errorf("with %v %v: the Secret %t, the claim %t, that for extended resources %t", pod.Spec.EphemeralContainers, pod.Status, s, m, e)
		}
	}
}

// A graph that follows the store equals one that is newly built from it, whatever objects came and went.
func TestGraphOfNodesFollowsTheStore(t *testing.T) {
	t.Parallel()
	f, r := newFixture(t), rand.New(rand.NewPCG(1, 2))
	one := func(from ...string) string { return from[r.IntN(len(from))] }
	followed, there, pods := authz.NewNode(f.store), map[string]bool{}, map[string]*corev1.Pod{}
	nodeOf := map[string]string{"1": "one", "2": "two", "3": "one"} // of objects that stay on their nodes
	for range 200 {
		var obj runtime.Object
		resource, name := one("pods", "pods", "pods", "persistentvolumes", "volumeattachments.storage.k8s.io", "resourceslices.resource.k8s.io",
			"podcertificaterequests.certificates.k8s.io"), one("1", "2", "3")
		switch resource {
		case "pods":
			pod := claiming(podOn(one("one", "two", ""), name, one("x", "y")), one("x", "y"), "", "")
			if before := pods[name]; before != nil && there[resource+name] { // a Pod is bound once, and its references do not change
				node := before.Spec.NodeName
				if pod = before.DeepCopy(); node == "" {
					pod.Spec.NodeName = one("one", "two")
				}
				if pod = claiming(pod, *pod.Spec.ResourceClaims[0].ResourceClaimName, one("", "1", "2"), one("", "3")); r.IntN(2) == 0 {
					pod = debugged(pod, one("1", "2", "3"))
				}
			}
			pods[name], obj = pod, pod
		case "persistentvolumes":
			obj = volume(name, one("x", "y"))
		case "resourceslices.resource.k8s.io":
			obj = sliceOf(name, nodeOf[name])
		case "podcertificaterequests.certificates.k8s.io":
			obj = certificateRequest(name, nodeOf[name])
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
			askAsNode(node, "get", "storage.k8s.io", "volumeattachments", "", name), askAsNode(node, "get", resourceGroup, "resourceclaims", "a", name),
			askAsNode(node, "get", resourceGroup, "resourceslices", "", name), askAsNode(node, "get", "certificates.k8s.io", "podcertificaterequests", "a", name))
	}
	return all
}
