// Package indexer has the indexers that upstream's listers read, without a copy of the objects: the Store has all of them in
// memory already. So a lister is never behind the server's own writes, nothing has to sync, and a type without readers costs
// nothing.
package indexer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
)

// Indexer has the objects of one type of client-go's. They are decoded on demand and cached by revision: the same few are read
// repeatedly. It is safe for concurrent use once it has its indexes; the methods of cache.Indexer that it does not have panic.
type Indexer struct {
	cache.Indexer // nil

	store      resources.Reader
	resource   string
	typ        reflect.Type
	apiVersion string
	indexers   cache.Indexers

	mu      sync.Mutex
	decoded map[resources.Key]decodedObject
	// items are those of the last call of Items.
	items map[resources.Key]decodedObject
}

type decodedObject struct {
	revision int64
	obj      runtime.Object
}

// decodedMost bounds the cache of an indexer; beyond it, the cache is cleared.
const decodedMost = 256

// New returns the indexer of the objects of obj's type, which client-go's scheme has.
func New(store resources.Reader, obj runtime.Object) *Indexer {
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		panic(err) // a type of client-go that its own scheme lacks
	}
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0]) // the types in question have regular plurals
	return &Indexer{store: store, resource: plural.GroupResource().String(), typ: reflect.TypeOf(obj).Elem(), apiVersion: kinds[0].GroupVersion().String()}
}

// Resource is the name of the type, as in resources.Key.
func (x *Indexer) Resource() string { return x.resource }

// Decode returns an object of the Store as listers do. It is shared, and must not be changed.
func (x *Indexer) Decode(o *resources.Object) (runtime.Object, error) {
	x.mu.Lock()
	known, ok := x.decoded[o.Key]
	x.mu.Unlock()
	if ok && known.revision == o.Revision {
		return known.obj, nil
	}
	obj := reflect.New(x.typ).Interface().(runtime.Object)
	if err := json.Unmarshal(o.Data, obj); err != nil {
		return nil, &resources.DecodeError{Key: o.Key, Err: err}
	}
	if stored := obj.GetObjectKind().GroupVersionKind().GroupVersion().String(); stored != x.apiVersion {
		return nil, fmt.Errorf("%s is stored as %s, wanted is %s", o.Key, stored, x.apiVersion)
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
func (x *Indexer) GetByKey(key string) (item any, exists bool, err error) {
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
	obj, err := x.Decode(o)
	return obj, err == nil, err
}

// List returns all objects.
func (x *Indexer) List() []any {
	items, err := x.list("")
	if err != nil {
		utilruntime.HandleError(err) // the interface returns no error
	}
	return items
}

// Items returns all objects. They are kept, so the next call decodes only those that have changed, however many there are. Errors: those of the
// Store, and an object that cannot be decoded.
func (x *Indexer) Items() ([]any, error) {
	x.mu.Lock()
	known, items := x.items, map[resources.Key]decodedObject{}
	x.mu.Unlock()
	all, err := x.listBy("", func(o *resources.Object) (runtime.Object, error) {
		obj := known[o.Key].obj
		if obj == nil || known[o.Key].revision != o.Revision {
			var err error
			if obj, err = x.Decode(o); err != nil {
				return nil, err
			}
		}
		items[o.Key] = decodedObject{o.Revision, obj}
		return obj, nil
	})
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.items = items
	return all, nil
}

// Index returns the objects of the namespace of obj; listers know no other index.
func (x *Indexer) Index(_ string, obj any) ([]any, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	return x.list(m.GetNamespace())
}

func (x *Indexer) list(namespace string) ([]any, error) { return x.listBy(namespace, x.Decode) }

func (x *Indexer) listBy(namespace string, decode func(*resources.Object) (runtime.Object, error)) (items []any, err error) {
	snapshot, err := x.store.Snapshot(context.Background(), x.resource, resources.At{Match: resources.Any, Namespace: namespace})
	if err != nil {
		return nil, err
	}
	snapshot.Ascend(namespace, "", func(o *resources.Object) bool {
		var obj runtime.Object
		if obj, err = decode(o); err != nil {
			return false
		}
		items = append(items, obj)
		return true
	})
	return items, err
}

// AddIndexers sets the indexes for ByIndex.
func (x *Indexer) AddIndexers(indexers cache.Indexers) error {
	x.indexers = indexers
	return nil
}

// ByIndex returns the objects with a value of an index. The values of the indexes in use begin with the namespace.
func (x *Indexer) ByIndex(name, value string) (found []any, err error) {
	namespace, _, _ := strings.Cut(value, "/")
	items, err := x.list(namespace)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		values, err := x.indexers[name](item)
		if err != nil {
			return nil, err
		}
		if slices.Contains(values, value) {
			found = append(found, item)
		}
	}
	return found, nil
}
