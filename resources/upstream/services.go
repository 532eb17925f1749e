package upstream

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"
)

// Services is upstream's storage of Services, without a storage, endpoints and pods behind it: only its hooks BeginCreate,
// BeginUpdate and AfterDelete, and Decorator, may be called.
type Services = servicestorage.REST

// ServiceRules returns upstream's storage of Services, of which only the hooks before and after a write are used: they decide
// the families and the number of addresses of a Service, its ports, the fields that an update keeps, and all errors of these.
// primary is one of the families in addresses.
func ServiceRules(primary core.IPFamily, addresses map[core.IPFamily]ipallocator.Interface, ports portallocator.Interface) (*Services, error) {
	rules, _, _, err := servicestorage.NewREST(noStorage{}, primary, addresses, ports, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("rules of Services: %w", err)
	}
	return rules, nil
}

// AsRead returns upstream's function that fills in the fields of a Service which kube-apiserver does not store with it, and adds when it reads it:
// those that came after the release by which it was written. primary is the family of a Service without addresses.
func AsRead(primary core.IPFamily) (func(*core.Service), error) {
	rules, err := ServiceRules(primary, map[core.IPFamily]ipallocator.Interface{primary: nil}, nil)
	if err != nil {
		return nil, err
	}
	return func(s *core.Service) { rules.Decorator(s) }, nil
}

// noStorage makes storages that are never used.
type noStorage struct{}

// GetRESTOptions returns empty options.
func (noStorage) GetRESTOptions(r schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{ResourcePrefix: r.String(), StorageConfig: &storagebackend.ConfigForResource{GroupResource: r},
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		}}, nil
}
