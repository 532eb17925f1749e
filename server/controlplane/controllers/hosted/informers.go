package hosted

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/indexer"
	"github.com/rowlock/rowlock/resources/upstream"
)

// Informers creates the informers of one run of a controller. It is the factory that the New functions of client-go's informer packages take.
type Informers struct {
	store resources.View
	// shows selects, by type, the objects that handlers are told of; no function: all.
	shows map[string]func(*resources.Object) bool

	mu        sync.Mutex
	informers map[reflect.Type]*informer
	handlers  map[string][]*handler // by type
}

var _ internalinterfaces.SharedInformerFactory = &Informers{}

func newInformers(store resources.View, follows []Followed) *Informers {
	f := &Informers{store: store, shows: map[string]func(*resources.Object) bool{}, informers: map[reflect.Type]*informer{}, handlers: map[string][]*handler{}}
	for _, t := range follows {
		f.shows[t.Resource] = t.Shows
	}
	return f
}

// InformerFor implements internalinterfaces.SharedInformerFactory. It panics for a type that is not followed: the controller
// would not be told of its changes.
func (f *Informers) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := reflect.TypeOf(obj)
	if f.informers[of] == nil {
		i := &informer{factory: f, indexer: indexer.New(f.store, obj)}
		if _, ok := f.shows[i.indexer.Resource()]; !ok {
			panic("not followed: " + i.indexer.Resource())
		}
		f.informers[of] = i
	}
	return f.informers[of]
}

// Start implements internalinterfaces.SharedInformerFactory: informers need not be started.
func (f *Informers) Start(<-chan struct{}) {}

// InformerName implements internalinterfaces.SharedInformerFactory.
func (f *Informers) InformerName() *cache.InformerName { return nil }

// tell tells handlers of a change.
func (f *Informers) tell(e *resources.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.handlers[e.Object.Resource]
	if len(all) == 0 || !f.shown(e.Object) {
		return
	}
	for _, h := range all {
		if e.Revision > h.since {
			h.tell(e)
		}
	}
}

// again tells the handlers of a type of an existing object as if it were new.
func (f *Informers) again(key resources.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, err := f.store.Get(context.Background(), key, resources.At{Match: resources.Any})
	if err != nil || !f.shown(o) {
		return // it was deleted, which handlers are told separately
	}
	for _, h := range f.handlers[key.Resource] {
		if obj := h.decode(o); obj != nil {
			h.OnAdd(obj, false)
		}
	}
}

// CalmQueue replaces the field queue of a controller that has not started yet by a queue of that name that seldom wakes while the controller
// has nothing to do. No handler is told of a change meanwhile: it would add to the queue that goes.
func (f *Informers) CalmQueue(controller any, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	upstream.CalmQueue(controller, name, "queue")
}

func (f *Informers) shown(o *resources.Object) bool {
	shows := f.shows[o.Resource]
	return shows == nil || shows(o)
}

// add tells a handler of the existing objects, and then of changes. The objects come from the watch cache, which has every
// change that handlers were told of. It panics when there is no cache, which ends the run: controllers do not check the error
// of AddEventHandler.
func (f *Informers) add(h *handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resource := h.indexer.Resource()
	now, err := f.store.Snapshot(context.Background(), resource, resources.At{Match: resources.Any})
	if err != nil {
		panic(err)
	}
	h.since = now.Revision()
	now.Ascend("", "", func(o *resources.Object) bool {
		if f.shown(o) {
			if obj := h.decode(o); obj != nil {
				h.OnAdd(obj, true)
			}
		}
		return true
	})
	f.handlers[resource] = append(f.handlers[resource], h)
}

// handler is a controller's event handler, with the objects that it is told of. It is its own registration.
type handler struct {
	cache.ResourceEventHandler

	indexer *indexer.Indexer
	// since is the revision of the objects that it was told of when it was added.
	since int64
}

// decode returns nil for an object that cannot be decoded; handlers are not told of it.
func (h *handler) decode(o *resources.Object) runtime.Object {
	obj, err := h.indexer.Decode(o)
	if err != nil {
		utilruntime.HandleError(err)
		return nil
	}
	return obj
}

func (h *handler) tell(e *resources.Event) {
	obj := h.decode(e.Object)
	if obj == nil {
		return
	}
	switch e.Op {
	case resources.Create:
		h.OnAdd(obj, false)
	case resources.Update:
		before := obj
		if e.Prev != nil {
			if before = h.decode(e.Prev); before == nil {
				before = obj
			}
		}
		h.OnUpdate(before, obj)
	case resources.Delete:
		h.OnDelete(obj)
	}
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (h *handler) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (h *handler) HasSyncedChecker() cache.DoneChecker { return synced{} }

// synced is a DoneChecker that is done from the start.
type synced struct{}

func (synced) Name() string { return "" }

func (synced) Done() <-chan struct{} { return closed }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// informer implements the methods of an informer that controllers use: its lister, and handlers. The other methods panic.
type informer struct {
	cache.SharedIndexInformer // nil

	factory *Informers
	indexer *indexer.Indexer
}

func (i *informer) GetIndexer() cache.Indexer                 { return i.indexer }
func (i *informer) GetStore() cache.Store                     { return i.indexer }
func (i *informer) HasSynced() bool                           { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker       { return synced{} }
func (i *informer) AddIndexers(indexers cache.Indexers) error { return i.indexer.AddIndexers(indexers) }

// AddEventHandler tells a handler of the existing objects before it returns.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	added := &handler{ResourceEventHandler: h, indexer: i.indexer}
	i.factory.add(added)
	return added, nil
}

// AddEventHandlerWithResyncPeriod ignores the resync period: no change is missed.
func (i *informer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler: the options are a resync period and a logger.
func (i *informer) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}
