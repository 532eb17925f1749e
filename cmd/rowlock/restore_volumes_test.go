package main

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	boundClaim = `{"metadata":{"name":"data","annotations":{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes","mine":"kept"}},
		"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"vol","storageClassName":"fast","resources":{"requests":{"storage":"1Gi"}}}}`
	boundVolume = `{"metadata":{"name":"vol"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"},"storageClassName":"fast",
		"claimRef":{"kind":"PersistentVolumeClaim","namespace":"shop","name":"data","uid":"UID","resourceVersion":"1"}}}`
)

// A claim with another uid than its volume refers to is restored as not bound, since a controller would mark it as lost otherwise, and still names
// that volume. A restored volume refers to the present claim, or to any later claim of the name if there is none: with the old uid a controller
// would take its claim for deleted, and delete its content.
func TestRestoreOfVolumes(t *testing.T) {
	h := startHistorian(t, storePlace{dir: filepath.Join(t.TempDir(), "data")})
	defer h.end()
	core := h.client.CoreV1()
	const claims, volumes = "/api/v1/namespaces/shop/persistentvolumeclaims", "/api/v1/persistentvolumes"
	send(t, h.client, "POST", claims, boundClaim)
	claim := func() *corev1.PersistentVolumeClaim {
		t.Helper()
		c, err := core.PersistentVolumeClaims("shop").Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	was := claim()
	bound := was.DeepCopy()
	bound.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: bound.Spec.Resources.Requests}
	if _, err := core.PersistentVolumeClaims("shop").UpdateStatus(t.Context(), bound, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	send(t, h.client, "POST", volumes, strings.Replace(boundVolume, "UID", string(was.UID), 1))
	file := filepath.Join(t.TempDir(), "backup")
	h.does(t, "backup", file)
	gone := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			send(t, h.client, "PATCH", path, `{"metadata":{"finalizers":null}}`)
			send(t, h.client, "DELETE", path, "")
		}
	}
	const claimPath, volumePath = claims + "/data", volumes + "/vol"
	unbound := func(out string) {
		t.Helper()
		now := claim()
		if now.Spec.VolumeName != "vol" || len(now.Annotations) != 1 || now.Status.Phase == corev1.ClaimBound || !strings.Contains(out, "data: created, to be bound to vol when that is there and free") {
			t.Errorf("%s%+v", out, now)
		}
	}
	of := func() *corev1.ObjectReference {
		t.Helper()
		v, err := core.PersistentVolumes().Get(t.Context(), "vol", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return v.Spec.ClaimRef
	}
	gone(claimPath, volumePath)
	unbound(h.does(t, "undelete", "pvc/data", "-n", "shop"))
	h.does(t, "undelete", "pv/vol")
	if r := of(); r.UID != claim().UID || r.ResourceVersion != "" {
		t.Errorf("the volume is of %+v", r)
	}
	gone(claimPath, volumePath)
	h.does(t, "restore", file, "--object", "pv/vol")
	if r := of(); r.UID != "" || r.Name != "data" || r.Namespace != "shop" {
		t.Errorf("the volume is of %+v", r)
	}
	gone(volumePath)
	out := h.does(t, "restore", file, "--namespace", "shop", "--object", "pv/vol")
	unbound(out)
	if r := of(); r.UID != claim().UID {
		t.Errorf("the volume is of %+v", r)
	}
	if out := h.does(t, "restore", file, "--namespace", "shop", "--object", "pv/vol"); !strings.Contains(out, "data: unchanged") {
		t.Error(out)
	}
}
