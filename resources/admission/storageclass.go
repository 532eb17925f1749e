package admission

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	storageutil "k8s.io/kubernetes/pkg/apis/storage/util"
)

// DefaultStorageClass is kube-apiserver's admission plugin of this name: a claim without a class gets the default one.
// Upstream's own plugin brings the volume plugins of the kubelet, and with them code under the MPL.
type DefaultStorageClass struct {
	classes storagelisters.StorageClassLister
}

var _ admission.MutationInterface = &DefaultStorageClass{}

// SetExternalKubeInformerFactory implements initializer.WantsExternalKubeInformerFactory.
func (p *DefaultStorageClass) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	p.classes = f.Storage().V1().StorageClasses().Lister()
}

// ValidateInitialization implements admission.InitializationValidator.
func (p *DefaultStorageClass) ValidateInitialization() error {
	if p.classes == nil {
		return errors.New("missing lister")
	}
	return nil
}

// Handles implements admission.Interface.
func (*DefaultStorageClass) Handles(op admission.Operation) bool { return op == admission.Create }

// Admit implements admission.MutationInterface.
func (p *DefaultStorageClass) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	claim, ok := a.GetObject().(*api.PersistentVolumeClaim)
	if !ok || a.GetResource().GroupResource() != api.Resource("persistentvolumeclaims") || a.GetSubresource() != "" ||
		helper.PersistentVolumeClaimHasClass(claim) {
		return nil
	}
	all, err := p.classes.List(labels.Everything())
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	// all is a new slice for each call.
	defaults := slices.DeleteFunc(all, func(c *storagev1.StorageClass) bool { return !storageutil.IsDefaultAnnotation(c.ObjectMeta) })
	if len(defaults) > 0 {
		claim.Spec.StorageClassName = &slices.MinFunc(defaults, newestFirst).Name
	}
	return nil
}

// newestFirst orders default classes: the newest one counts, and of those made in one second the first by name.
func newestFirst(a, b *storagev1.StorageClass) int {
	return cmp.Or(cmp.Compare(b.CreationTimestamp.UnixNano(), a.CreationTimestamp.UnixNano()), strings.Compare(a.Name, b.Name))
}
