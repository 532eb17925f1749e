package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/resource"
	resourcev1 "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
)

// storeInformers are informers that keep nothing: their listers read the Store, which has every object in memory already.
// So what a plugin sees is never behind the server's own writes, there is nothing to wait for, and a type that nobody asks
// about costs nothing. It has the groups that plugins ask for; another one would fail loudly when the server starts.
type storeInformers struct {
	informers.SharedInformerFactory // nil

	store     resources.Reader
	mu        sync.Mutex
	informers map[string]*storeInformer // by resource
	// followers are complete when the plugins are made.
	followers []*follower
}

func newInformers(store resources.Reader) *storeInformers {
	return &storeInformers{store: store, informers: map[string]*storeInformer{}}
}

func (f *storeInformers) Core() core.Interface             { return core.New(f, "", nil) }
func (f *storeInformers) Networking() networking.Interface { return networking.New(f, "", nil) }
func (f *storeInformers) Node() node.Interface             { return node.New(f, "", nil) }
func (f *storeInformers) Resource() resource.Interface     { return resourceInformers{f: f} }
func (f *storeInformers) Scheduling() scheduling.Interface { return scheduling.New(f, "", nil) }
func (f *storeInformers) Storage() storage.Interface       { return storage.New(f, "", nil) }

// resourceInformers has one version of the group: the informers of all would link a client for each.
type resourceInformers struct {
	resource.Interface // nil

	f *storeInformers
}

func (r resourceInformers) V1() resourcev1.Interface { return resourcev1.New(r.f, "", nil) }

// InformerFor returns the informer of a type.
func (f *storeInformers) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		panic(err) // a type of client-go that its own scheme does not know
	}
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0]) // the types in question have regular plurals
	name := plural.GroupResource().String()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.informers[name] == nil {
		f.informers[name] = &storeInformer{factory: f, indexer: &storeIndexer{store: f.store, resource: name,
			typ: reflect.TypeOf(obj).Elem(), apiVersion: kinds[0].GroupVersion().String()}}
	}
	return f.informers[name]
}

// storeInformer is an informer of which the lister is used; see followers.go for what else there is.
type storeInformer struct {
	cache.SharedIndexInformer // nil

	factory *storeInformers
	indexer *storeIndexer
}

func (i *storeInformer) GetIndexer() cache.Indexer { return i.indexer }
func (i *storeInformer) HasSynced() bool           { return true }

// storeIndexer is what listers read from. Objects are decoded when they are asked for and remembered by revision: the same
// few classes are asked for with every pod.
type storeIndexer struct {
	cache.Indexer // nil

	store      resources.Reader
	resource   string
	typ        reflect.Type
	apiVersion string
	indexers   cache.Indexers

	mu      sync.Mutex
	decoded map[resources.Key]decodedObject
}

type decodedObject struct {
	revision int64
	obj      runtime.Object
}

// decodedMost bounds what an indexer remembers; beyond it, it starts anew.
const decodedMost = 256

func (x *storeIndexer) decode(o *resources.Object) (runtime.Object, error) {
	x.mu.Lock()
	known, ok := x.decoded[o.Key]
	x.mu.Unlock()
	if ok && known.revision == o.Revision {
		return known.obj, nil
	}
	obj := reflect.New(x.typ).Interface().(runtime.Object)
	if err := json.Unmarshal(o.Data, obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", o.Key, err)
	}
	if stored := obj.GetObjectKind().GroupVersionKind().GroupVersion().String(); stored != x.apiVersion {
		return nil, fmt.Errorf("%s is stored as %s, a plugin wants %s", o.Key, stored, x.apiVersion)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.decoded == nil || len(x.decoded) >= decodedMost {
		x.decoded = map[resources.Key]decodedObject{}
	}
	x.decoded[o.Key] = decodedObject{o.Revision, obj}
	return obj, nil
}

// GetByKey takes "namespace/name" or "name".
func (x *storeIndexer) GetByKey(key string) (item any, exists bool, err error) {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return nil, false, err
	}
	o, err := x.store.Get(context.Background(), resources.Key{Resource: x.resource, Namespace: namespace, Name: name},
		resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	obj, err := x.decode(o)
	return obj, err == nil, err
}

// List returns all objects.
func (x *storeIndexer) List() []any {
	items, err := x.list("")
	if err != nil {
		utilruntime.HandleError(err) // the interface has no place for it
	}
	return items
}

// Index returns the objects of the namespace of obj; listers know no other index.
func (x *storeIndexer) Index(_ string, obj any) ([]any, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return x.list(m.GetNamespace())
}

func (x *storeIndexer) list(namespace string) (items []any, err error) {
	snapshot, err := x.store.Snapshot(context.Background(), x.resource, resources.At{Match: resources.Any})
	if err != nil {
		return nil, err
	}
	snapshot.Ascend(namespace, "", func(o *resources.Object) bool {
		var obj runtime.Object
		if obj, err = x.decode(o); err != nil {
			return false
		}
		items = append(items, obj)
		return true
	})
	return items, err
}
