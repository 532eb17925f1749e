package admission

import (
	"context"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/indexer"
)

// follower tells a handler what has changed among the objects of a type. Nobody wakes it: who depends on the handler has it
// catch up first, so that the handler is not behind either.
type follower struct {
	store   resources.Reader
	indexer *indexer.Indexer
	handler cache.ResourceEventHandler

	mu   sync.Mutex
	seen map[string]seenObject // by path
}

type seenObject struct {
	revision int64
	obj      any
}

func (f *follower) catchUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := f.store.Snapshot(context.Background(), f.indexer.Resource(), resources.At{Match: resources.Any})
	if err != nil {
		utilruntime.HandleError(err) // the next request tries again
		return
	}
	there := map[string]seenObject{}
	now.Ascend("", "", func(o *resources.Object) bool {
		path := o.Path()
		before, known := f.seen[path]
		if known && before.revision == o.Revision {
			there[path] = before
			return true
		}
		obj, err := f.indexer.Decode(o)
		if err != nil {
			utilruntime.HandleError(err)
			return true
		}
		there[path] = seenObject{o.Revision, obj}
		if known {
			f.handler.OnUpdate(before.obj, obj)
		} else {
			f.handler.OnAdd(obj, f.seen == nil)
		}
		return true
	})
	for path, before := range f.seen {
		if _, ok := there[path]; !ok {
			f.handler.OnDelete(before.obj)
		}
	}
	f.seen = there
}

// catchUp tells all handlers what has changed.
func (f *storeInformers) catchUp() {
	for _, follower := range f.followers {
		follower.catchUp()
	}
}

// AddEventHandler has a handler told of changes, by storeInformers.catchUp. Nobody wants the registration.
func (i *storeInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.factory.followers = append(i.factory.followers, &follower{store: i.factory.store, indexer: i.indexer, handler: h})
	return nil, nil
}

// AddIndexers adds indexes for ByIndex.
func (i *storeInformer) AddIndexers(indexers cache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}
