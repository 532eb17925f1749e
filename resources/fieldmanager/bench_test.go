package fieldmanager

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// benchPod is a pod of about 4.8 KB of JSON with its managedFields, as a Deployment makes it and a kubelet reports on.
func benchPod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web-5d9c7b8f6d-x2x7q", Namespace: "default", UID: "0b3c4e1e-9f0b-4f0e-9b0a-0d3f3a0c7b11",
		Labels:      map[string]string{"app": "web", "pod-template-hash": "5d9c7b8f6d", "tier": "front"},
		Annotations: map[string]string{"example.com/checksum": "8c1f0bb0c0de", "prometheus.io/scrape": "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c7b8f6d",
			UID: "7c1a2b3c-1111-2222-3333-444455556666"}},
	}}
	for i := range 2 {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example.com/team/web:v1.2.3", Args: []string{"--port=8080", "--verbose"}}
		for j := range 4 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", j), Value: "some value"})
		}
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}}
		c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("256Mi")}
		c.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz"}}, PeriodSeconds: 10}
		c.LivenessProbe.HTTPGet.Port.IntVal = 8080
		c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}, {Name: "token", MountPath: "/var/run/secrets"}}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true})
	}
	pod.Spec.NodeName = "node-17"
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "token"}}},
	}
	for _, c := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: metav1.Unix(1700000000, 0)})
	}
	pod.Status.Phase = "Running"
	legacyscheme.Scheme.Default(pod)
	return pod
}

func hubOf(b testing.TB, obj runtime.Object) runtime.Object {
	gvk := obj.GetObjectKind().GroupVersionKind()
	out, err := legacyscheme.Scheme.ConvertToVersion(obj, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

type updater interface {
	UpdateNoErrors(live, obj runtime.Object, manager string) runtime.Object
	Apply(live, patch runtime.Object, manager string, force bool) (runtime.Object, error)
}

type ours struct{ *Manager }

func (o ours) UpdateNoErrors(live, obj runtime.Object, manager string) runtime.Object {
	return o.Update(live, obj, manager)
}

func benchManagers(b *testing.B, gvk schema.GroupVersionKind, run func(b *testing.B, m updater)) {
	scheme := legacyscheme.Scheme
	reset := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(gvk.GroupVersion().String()): fieldpath.NewSet(fieldpath.MakePathOrDie("status"))}
	hub := schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal}
	m, err := New(Config{Scheme: scheme, Kind: gvk, Hub: hub, ResetFields: reset, Fallback: func(reason string) { b.Errorf("fallback: %s", reason) }})
	if err != nil {
		b.Fatal(err)
	}
	up, err := managedfields.NewDefaultFieldManager(upstreamTypes(b, scheme, []schema.GroupVersionKind{gvk}), runtime.UnsafeObjectConvertor(scheme),
		scheme, scheme, gvk, hub, "", fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("upstream", func(b *testing.B) { run(b, up) })
	b.Run("ours", func(b *testing.B) { run(b, ours{m}) })
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func BenchmarkCreatePod(b *testing.B) {
	benchManagers(b, podKind, func(b *testing.B, m updater) {
		pod := benchPod()
		pod.UID = ""
		pod.SetGroupVersionKind(podKind)
		obj := hubOf(b, pod)
		b.ReportAllocs()
		for b.Loop() {
			m.UpdateNoErrors(&corev1.Pod{}, obj, "kube-controller-manager")
		}
	})
}

func BenchmarkUpdatePod(b *testing.B) {
	benchManagers(b, podKind, func(b *testing.B, m updater) {
		pod := benchPod()
		pod.SetGroupVersionKind(podKind)
		uid := pod.UID
		pod.UID = ""
		live := m.UpdateNoErrors(&corev1.Pod{}, hubOf(b, pod), "kube-controller-manager")
		accessor, _ := meta.Accessor(live)
		accessor.SetUID(uid)
		entries := accessor.GetManagedFields()
		entries = append(entries, metav1.ManagedFieldsEntry{
			Manager: "kubelet", Operation: "Update", APIVersion: "v1", Subresource: "status", FieldsType: "FieldsV1", Time: &metav1.Time{Time: time.Unix(1700000000, 0)},
			FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.1.2.3\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`),
		})
		accessor.SetManagedFields(entries)
		changed := live.DeepCopyObject()
		changedMeta, _ := meta.Accessor(changed)
		changedMeta.SetLabels(map[string]string{"app": "web", "pod-template-hash": "5d9c7b8f6d", "tier": "back", "new": "label"})
		if versioned, err := legacyscheme.Scheme.ConvertToVersion(live, corev1.SchemeGroupVersion); err == nil {
			text, _ := json.Marshal(versioned)
			b.Logf("%d bytes of JSON", len(text))
		}
		b.ReportAllocs()
		for b.Loop() {
			changedMeta.SetManagedFields(entries)
			m.UpdateNoErrors(live, changed, "kubectl-edit")
		}
	})
}

func BenchmarkApplyConfigMap(b *testing.B) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	benchManagers(b, kind, func(b *testing.B, m updater) {
		patch := func(value string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "c", "namespace": "default", "labels": map[string]any{"app": "a"}},
				"data":     map[string]any{"a": value, "b": "2", "c": "3", "d": "4"},
			}}
			u.SetGroupVersionKind(kind)
			return u
		}
		live := hubOf(b, func() runtime.Object { c := &corev1.ConfigMap{}; c.SetGroupVersionKind(kind); return c }())
		for _, manager := range []string{"one"} {
			var err error
			if live, err = m.Apply(live, patch("1"), manager, true); err != nil {
				b.Fatal(err)
			}
		}
		accessor, _ := meta.Accessor(live)
		accessor.SetUID("uid")
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			if _, err := m.Apply(live, patch(fmt.Sprint(i)), "one", true); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkApplyPod applies the fields of a pod's owner, with one change, over a pod with another manager.
func BenchmarkApplyPod(b *testing.B) {
	benchManagers(b, podKind, func(b *testing.B, m updater) {
		pod := benchPod()
		pod.Status = corev1.PodStatus{}
		pod.SetGroupVersionKind(podKind)
		uid := pod.UID
		pod.UID = ""
		live := m.UpdateNoErrors(&corev1.Pod{}, hubOf(b, pod), "kube-controller-manager")
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			b.Fatal(err)
		}
		patch := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		if live, err = m.Apply(live, patch, "one", true); err != nil {
			b.Fatal(err)
		}
		accessor, _ := meta.Accessor(live)
		accessor.SetUID(uid)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			i++
			patch.SetLabels(map[string]string{"app": fmt.Sprint(i), "pod-template-hash": "5d9c7b8f6d", "tier": "front"})
			if _, err := m.Apply(live, patch, "one", true); err != nil {
				b.Fatal(err)
			}
		}
	})
}
