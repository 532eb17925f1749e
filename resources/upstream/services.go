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

// Services is upstream's storage of Services. It has no storage behind it, no endpoints and no pods: only its hooks
// BeginCreate, BeginUpdate and AfterDelete may be called.
type Services = servicestorage.REST

// ServiceRules returns upstream's storage of Services, of which nothing is used but the hooks before and after a write: which
// families and how many addresses a Service gets, which ports, what is kept by an update, and every error of that are
// decided there. primary is one of the families in addresses.
func ServiceRules(primary core.IPFamily, addresses map[core.IPFamily]ipallocator.Interface, ports portallocator.Interface) (*Services, error) {
	rules, _, _, err := servicestorage.NewREST(noStorage{}, primary, addresses, ports, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("rules of Services: %w", err)
	}
	return rules, nil
}

// noStorage is where a storage comes from that is never used.
type noStorage struct{}

// GetRESTOptions returns options with nothing in them.
func (noStorage) GetRESTOptions(r schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{ResourcePrefix: r.String(), StorageConfig: &storagebackend.ConfigForResource{GroupResource: r},
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		}}, nil
}
