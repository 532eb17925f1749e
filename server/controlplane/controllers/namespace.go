package controllers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// namespaces empties the namespaces that are being deleted, and removes their finalizer ("a namespace-scoped resource type will be
// deleted when its namespace is deleted", API concepts page, "Resource types"). It needs no rounds (roundObserver). Emptying a
// namespace a little early does no harm, because an object that is created later is noticed; and no namespace waits for objects
// whose type is not served.
type namespaces struct {
	registry *resources.Registry
	store    resources.View
	pipeline *resources.Pipeline
	// elsewhere is nil where there are no other servers.
	elsewhere Elsewhere
	logger    *slog.Logger
	queue     *queue[string]

	mu sync.Mutex
	// ending are the namespaces that are being deleted.
	ending map[string]*ending
	// ended holds, for a while, when namespaces were removed.
	ended map[string]time.Time
}

// ending is a namespace that is being deleted.
type ending struct {
	// askAgain is the interval until objects of another server are checked again; 0: they were not checked yet.
	askAgain time.Duration
	// askDue is when that check is due.
	askDue time.Time
}

const (
	namespaceWorkers = 10
	// reviewAfter is the delay from a change to the update of the namespace's conditions.
	reviewAfter = time.Second
	// stragglersAfter bounds how long after the end of a namespace an object can appear in it: a create that was
	// admitted before ends with its request.
	stragglersAfter = 2 * time.Minute
)

// namespaceController is the service account that empties namespaces.
var namespaceController = resources.Controller("namespace-controller")

const namespacesResource = "namespaces"

func newNamespaces(c Config) *namespaces {
	return &namespaces{registry: c.Registry, store: c.Store, pipeline: c.Pipeline, elsewhere: c.Elsewhere, logger: c.Logger, queue: newQueue[string](c.Logger),
		ended: map[string]time.Time{}}
}

func (c *namespaces) work(ctx context.Context) { c.queue.work(ctx, namespaceWorkers, c.sync) }

func (c *namespaces) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ending = map[string]*ending{}
}

// typesChanged queues all ending and ended namespaces. A namespace does not wait for objects of a type that is no longer
// served. A type may also have disappeared and come back between two reads of the catalog: its objects are not shown again
// then, and a worker that emptied a namespace meanwhile did not see them.
func (c *namespaces) typesChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.ending {
		c.queue.Add(name)
	}
	for name := range c.ended {
		if c.endedLately(name) {
			c.queue.Add(name)
		}
	}
}

func (c *namespaces) observe(e *resources.Event) {
	switch {
	case e.Object.Resource == namespacesResource:
		c.observeNamespace(e)
	case e.Object.Resource == apiServicesResource:
		if before, after := proxiedAround(e); before != after {
			c.typesChanged() // objects that kept a namespace may not count any more, and others may do so now (readProxied)
		}
	case e.Object.Namespace != "" && e.Op != resources.Update:
		c.observeContent(e)
	}
}

func (c *namespaces) observeNamespace(e *resources.Event) {
	name := e.Object.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case e.Op == resources.Delete:
		delete(c.ending, name)
		c.end(name, time.Now())
	case isDeleting(e.Object.Data):
		if c.ending[name] == nil {
			c.ending[name] = &ending{}
		} else if e.Op == resources.Update && sameSpec(e.Object, e.Prev) {
			return // its own writes of the status above all: after a failed deletion, they would cut short the wait
		}
	default:
		delete(c.ended, name)
		return
	}
	c.queue.Add(name)
}

// sameSpec tells whether two states of a namespace have the same spec. It is all that changes for this controller while the namespace
// is being deleted.
func sameSpec(a, b *resources.Object) bool {
	return b != nil && gjson.GetBytes(a.Data, "spec").Raw == gjson.GetBytes(b.Data, "spec").Raw
}

// end records the end of a namespace, and forgets those that ended long ago.
func (c *namespaces) end(name string, now time.Time) {
	for other, at := range c.ended {
		if now.Sub(at) > stragglersAfter {
			delete(c.ended, other)
		}
	}
	c.ended[name] = now
}

// endedLately tells whether a namespace has ended within stragglersAfter, and forgets it otherwise. The caller holds mu. Later, an object may be there
// that was created without a namespace on purpose (--disable-admission-plugins=NamespaceLifecycle).
func (c *namespaces) endedLately(name string) bool {
	at, ended := c.ended[name]
	if ended && time.Since(at) > stragglersAfter {
		delete(c.ended, name)
		ended = false
	}
	return ended
}

// observeContent handles an object that was created or deleted in a namespace that may be ending, or has ended.
func (c *namespaces) observeContent(e *resources.Event) {
	name := e.Object.Namespace
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.ending[name]
	switch {
	case e.Op == resources.Create && (n != nil || c.endedLately(name)), n != nil && c.last(e.Object.Key):
		c.queue.Add(name)
	case n != nil:
		c.queue.addAfter(name, reviewAfter)
	}
}

// last tells whether a deleted object was the last one of its type in the namespace.
func (c *namespaces) last(gone resources.Key) bool {
	s, err := c.store.Snapshot(context.Background(), gone.Resource, resources.At{Match: resources.Any, Namespace: gone.Namespace})
	return err != nil || s.Count(gone.Namespace, "") == 0
}

// sync does the next step of deleting a namespace.
func (c *namespaces) sync(ctx context.Context, name string) error {
	t, ok := c.registry.Catalog().Type(namespacesResource)
	if !ok {
		return nil
	}
	o, err := c.store.Get(ctx, t.KeyOf("", name), resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return c.sweep(ctx, t, name)
	}
	if err != nil {
		return err
	}
	hub, err := t.DecodeHub(o)
	if err != nil {
		return err
	}
	ns, ok := hub.(*core.Namespace)
	if !ok || ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
		return nil
	}
	rest := c.empty(ctx, c.target(t, name, ns.UID, ns.DeletionTimestamp.Time))
	if err := c.update(ctx, t, "status", ns, rest.setConditions); err != nil {
		c.logger.Warn("the conditions of a namespace could not be written", "namespace", name, "error", err)
	}
	switch {
	case len(rest.failures) > 0:
		return errors.Join(rest.failures...)
	case !rest.none():
		if rest.grace > 0 {
			c.queue.addAfter(name, rest.grace)
		}
		if rest.elsewhere {
			c.askAgain(name)
		}
		return nil // the deletion of the remaining objects queues the namespace again
	}
	return c.update(ctx, t, "finalize", ns, func(ns *core.Namespace) {
		ns.Spec.Finalizers = slices.DeleteFunc(ns.Spec.Finalizers, func(f core.FinalizerName) bool { return f == core.FinalizerKubernetes })
	})
}

// sweep deletes objects in a namespace that has ended: creates that were admitted before its end may have left some.
func (c *namespaces) sweep(ctx context.Context, t *resources.Type, name string) error {
	c.mu.Lock()
	ended := c.endedLately(name)
	c.mu.Unlock()
	if !ended {
		return nil
	}
	return errors.Join(c.empty(ctx, c.target(t, name, "", time.Time{})).failures...)
}

// askAgain schedules another check of the objects of other servers.
func (c *namespaces) askAgain(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.ending[name]
	if n == nil {
		return
	}
	if !time.Now().Before(n.askDue) {
		n.askAgain = min(max(askAgainFirst, 2*n.askAgain), askAgain)
		n.askDue = time.Now().Add(n.askAgain)
	}
	c.queue.addAfter(name, time.Until(n.askDue))
}

// update changes the namespace through a subresource, if it still exists.
func (c *namespaces) update(ctx context.Context, t *resources.Type, subresource string, ns *core.Namespace, edit func(*core.Namespace)) error {
	manager, err := t.ServerManager(subresource)
	if err != nil {
		return err
	}
	key := t.KeyOf("", ns.Name)
	r := resources.UpdateRequest{Type: t, Name: ns.Name, UID: ns.UID,
		Change: func(_ context.Context, existing runtime.Object, live *resources.Object) (runtime.Object, error) {
			old, ok := existing.(*core.Namespace)
			if !ok || live == nil {
				return nil, resources.ErrNotFound
			}
			obj := old.DeepCopy()
			edit(obj)
			return manager.Update(old, obj, fieldManager), nil
		}}
	_, _, err = c.pipeline.Update(namespaceController.Request(ctx, "update", t, key, subresource), &r)
	return resources.UnlessGone(ctx, c.store, key, ns.UID, 0, err)
}

// isStill tells whether the namespace of this name has the given uid, or, when uid is empty, still does not exist.
func (c *namespaces) isStill(ctx context.Context, t *resources.Type, name string, uid types.UID, at resources.At) (bool, error) {
	o, err := c.store.Get(ctx, t.KeyOf("", name), at)
	if errors.Is(err, resources.ErrNotFound) {
		return uid == "", nil
	}
	if err != nil {
		return false, err
	}
	return readMetadata(o.Data).uid == uid, nil
}
