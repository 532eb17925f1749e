package admission

import (
	"context"
	"errors"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/indexer"
)

// follower reports the changes of a type's objects to a handler. It does not watch: a caller that depends on the handler
// calls catchUp first, so that the handler is up to date.
type follower struct {
	store   resources.Reader
	indexer *indexer.Indexer
	handler cache.ResourceEventHandler

	mu sync.Mutex
	// seen is nil before the first catchUp.
	seen map[string]seenObject // by path
}

type seenObject struct {
	revision int64
	obj      any
}

func (f *follower) catchUp() (failed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := f.store.Snapshot(context.Background(), f.indexer.Resource(), resources.At{Match: resources.Any})
	if err != nil {
		return err
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
			failed = errors.Join(failed, err)
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
	return failed
}

// catchUp reports the changes to the handlers of a type.
//
// Errors: those of the Reader, and those of unreadable objects; the handlers get the other changes.
func (f *storeInformers) catchUp(resource string) error {
	var failed error
	for _, follower := range f.followers {
		if follower.indexer.Resource() == resource {
			failed = errors.Join(failed, follower.catchUp())
		}
	}
	return failed
}

// AddEventHandler registers a handler, to which storeInformers.catchUp reports changes.
func (i *storeInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.factory.followers = append(i.factory.followers, &follower{store: i.factory.store, indexer: i.indexer, handler: h})
	return synced{}, nil
}

// synced is the registration of a handler that is up to date whenever it is needed.
type synced struct {
	cache.ResourceEventHandlerRegistration // nil
}

func (synced) HasSynced() bool { return true }

// AddIndexers adds indexes for ByIndex.
func (i *storeInformer) AddIndexers(indexers cache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}
