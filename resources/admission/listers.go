package admission

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	admissionregistrationv1 "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/resource"
	resourcev1 "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/indexer"
)

// storeInformers are informers without a cache: their listers read the Store (package indexer). It has the groups that plugins need; the use of
// another one would panic when the server starts.
type storeInformers struct {
	informers.SharedInformerFactory // nil

	store     resources.View
	registry  *resources.Registry
	mu        sync.Mutex
	informers map[reflect.Type]*storeInformer
	// followers is complete when the plugins have been made.
	followers []*follower
}

func newInformers(store resources.View, registry *resources.Registry) *storeInformers {
	return &storeInformers{store: store, registry: registry, informers: map[reflect.Type]*storeInformer{}}
}

func (f *storeInformers) Admissionregistration() admissionregistration.Interface {
	return registrationInformers{f: f}
}

func (f *storeInformers) Core() core.Interface             { return core.New(f, "", nil) }
func (f *storeInformers) Networking() networking.Interface { return networking.New(f, "", nil) }
func (f *storeInformers) Node() node.Interface             { return node.New(f, "", nil) }
func (f *storeInformers) Resource() resource.Interface     { return resourceInformers{f: f} }
func (f *storeInformers) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *storeInformers) Storage() storage.Interface       { return storage.New(f, "", nil) }

// registrationInformers has one version of its group, as resourceInformers.
type registrationInformers struct {
	admissionregistration.Interface // nil

	f *storeInformers
}

func (r registrationInformers) V1() admissionregistrationv1.Interface {
	return admissionregistrationv1.New(r.f, "", nil)
}

// resourceInformers has one version of the group: the informers of all versions would link a client for each.
type resourceInformers struct {
	resource.Interface // nil

	f *storeInformers
}

func (r resourceInformers) V1() resourcev1.Interface { return resourcev1.New(r.f, "", nil) }

// InformerFor returns the informer of a type.
func (f *storeInformers) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	of := reflect.TypeOf(obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.informers[of] == nil {
		f.informers[of] = &storeInformer{factory: f, indexer: indexer.New(f.store, obj)}
	}
	return f.informers[of]
}

// informerOf returns the informer of a type that InformerFor was called for, by its name in the store.
func (f *storeInformers) informerOf(resource string) *storeInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.informers {
		if i.indexer.Resource() == resource {
			return i
		}
	}
	return nil
}

// storeInformer is an informer whose lister is used; followers.go has its handlers.
type storeInformer struct {
	cache.SharedIndexInformer // nil

	factory *storeInformers
	indexer *indexer.Indexer
}

func (i *storeInformer) GetIndexer() cache.Indexer { return i.indexer }
func (i *storeInformer) HasSynced() bool           { return true }
