package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/storage"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"

	"github.com/rowlock/rowlock/resources"
)

func storageGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "storage.k8s.io", Version: "v1"}
	return single(v1,
		define[storage.CSIDriver, storage.CSIDriverList](v1, "csidrivers", csidriver.Strategy, returnsDeleted),
		define[storage.CSINode, storage.CSINodeList](v1, "csinodes", csinode.Strategy,
			returnsDeleted, status(csinode.StatusStrategy)),
		define[storage.CSIStorageCapacity, storage.CSIStorageCapacityList](v1, "csistoragecapacities", csistoragecapacity.Strategy,
			table(rest.NewDefaultTableConvertor)),
		define[storage.StorageClass, storage.StorageClassList](v1, "storageclasses", storageclass.Strategy, short("sc"), returnsDeleted),
		define[storage.VolumeAttachment, storage.VolumeAttachmentList](v1, "volumeattachments", volumeattachment.Strategy,
			returnsDeleted, status(volumeattachment.StatusStrategy)),
		define[storage.VolumeAttributesClass, storage.VolumeAttributesClassList](v1, "volumeattributesclasses", volumeattributesclass.Strategy,
			short("vac"), returnsDeleted),
	)
}
