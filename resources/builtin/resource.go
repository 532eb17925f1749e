package builtin

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/core/v1"
	api "k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"

	"github.com/rowlock/rowlock/resources"
)

func resourceGroup(p Parts, namespaces *resources.Type) resources.GroupSpec {
	gv := resourcev1.SchemeGroupVersion
	lookup := namespaceLookup{reader: p.Reader, namespaces: namespaces}
	claim := resourceclaim.NewStrategy(lookup, p.Authorizer)
	return single(gv,
		define[api.DeviceClass, api.DeviceClassList](gv, "deviceclasses", deviceclass.Strategy, returnsDeleted),
		define[api.DeviceTaintRule, api.DeviceTaintRuleList](gv, "devicetaintrules", devicetaintrule.Strategy, clockColumns,
			returnsDeletedIn("v1beta2", "v1alpha3"), statusWithoutTable(devicetaintrule.StatusStrategy)),
		define[api.ResourceClaim, api.ResourceClaimList](gv, "resourceclaims", claim,
			selectBy(resourceclaim.GetAttrs), returnsDeleted, statusWithoutTable(resourceclaim.NewStatusStrategy(claim))),
		define[api.ResourceClaimTemplate, api.ResourceClaimTemplateList](gv, "resourceclaimtemplates", resourceclaimtemplate.NewStrategy(lookup),
			selectBy(resourceclaimtemplate.GetAttrs), returnsDeleted),
		define[api.ResourceSlice, api.ResourceSliceList](gv, "resourceslices", resourceslice.Strategy,
			selectBy(resourceslice.GetAttrs), returnsDeleted, func(t *resources.Type) { t.Indexed = api.ResourceSliceSelectorNodeName }),
	)
}

// namespaceLookup is the part of a namespace client that upstream's claim strategies use: Get, to check whether a
// namespace may ask for admin access.
type namespaceLookup struct {
	client.NamespaceInterface
	reader     resources.Reader
	namespaces *resources.Type
}

// Get returns the namespace as stored. Errors: those of resources.Reader.
func (l namespaceLookup) Get(ctx context.Context, name string, _ metav1.GetOptions) (*v1.Namespace, error) {
	if l.reader == nil {
		return nil, errors.New("no store to find the namespace in")
	}
	o, err := l.reader.Get(ctx, l.namespaces.KeyOf("", name), resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	ns, err := l.namespaces.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	return ns.(*v1.Namespace), nil
}
