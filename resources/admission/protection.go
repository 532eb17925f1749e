package admission

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	api "k8s.io/kubernetes/pkg/apis/core"
	storageapi "k8s.io/kubernetes/pkg/apis/storage"
	"k8s.io/kubernetes/pkg/features"
)

// StorageObjectInUseProtection is kube-apiserver's admission plugin of this name: volumes, claims and classes of
// attributes start with a finalizer, which a controller removes when they are no longer used. Upstream's own plugin
// brings the volume plugins of the kubelet, and with them code under the MPL.
type StorageObjectInUseProtection struct{}

var _ admission.MutationInterface = StorageObjectInUseProtection{}

// Handles implements admission.Interface.
func (StorageObjectInUseProtection) Handles(op admission.Operation) bool {
	return op == admission.Create
}

// Admit implements admission.MutationInterface.
func (StorageObjectInUseProtection) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" {
		return nil
	}
	resource := a.GetResource().GroupResource()
	switch obj := a.GetObject().(type) {
	case *api.PersistentVolume:
		if resource == api.Resource("persistentvolumes") {
			protect(obj, "kubernetes.io/pv-protection")
		}
	case *api.PersistentVolumeClaim:
		if resource == api.Resource("persistentvolumeclaims") {
			protect(obj, "kubernetes.io/pvc-protection")
		}
	case *storageapi.VolumeAttributesClass:
		if resource == storageapi.Resource("volumeattributesclasses") &&
			utilfeature.DefaultFeatureGate.Enabled(features.VolumeAttributesClass) {
			protect(obj, "kubernetes.io/vac-protection")
		}
	}
	return nil
}

// protect adds a missing finalizer.
func protect(obj metav1.Object, finalizer string) {
	if finalizers := obj.GetFinalizers(); !slices.Contains(finalizers, finalizer) {
		obj.SetFinalizers(append(finalizers, finalizer))
	}
}
