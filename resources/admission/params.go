package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
)

// withParams is upstream's dispatcher, which is given the location of the params as the request's catalog has them. They are read in the context of the
// request, so that a webhook which converts them does not outlast it.
type withParams[P, B runtime.Object, E any] struct {
	generic.Dispatcher[hook[P, B, E]]
	source *policies[P, B, E]
}

// Dispatch implements generic.Dispatcher.
func (d withParams[P, B, E]) Dispatch(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces, hooks []hook[P, B, E]) error {
	hooks, catalog := slices.Clone(hooks), d.source.informers.registry.CatalogOf(ctx)
	for i := range hooks {
		h := &hooks[i]
		kind := d.source.accessor(h.Policy).GetParamKind()
		if kind == nil {
			continue
		}
		gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
		served, ok := catalog.Kind(gvk)
		if !ok || !served.Stored() {
			h.ConfigurationError = fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gvk)
			continue
		}
		h.ParamInformer, h.ParamScope = params{ctx: ctx, store: d.source.store, served: served}, meta.RESTScopeRoot
		if served.Namespaced {
			h.ParamScope = meta.RESTScopeNamespace
		}
	}
	return d.Dispatcher.Dispatch(ctx, a, o, hooks)
}

// params are the parameters of policies: the objects of a type in a version, read from the store when a policy needs them. It is both
// the informer that upstream's code asks for, and its lister.
type params struct {
	ctx       context.Context
	store     resources.Reader
	served    *resources.Served
	namespace string // empty: all
}

// Informer implements informers.GenericInformer.
func (p params) Informer() cache.SharedIndexInformer { return syncedInformer{} }

// Lister implements informers.GenericInformer.
func (p params) Lister() cache.GenericLister { return p }

// syncedInformer is always up to date.
type syncedInformer struct {
	cache.SharedIndexInformer // nil
}

func (syncedInformer) HasSynced() bool { return true }

// ByNamespace implements cache.GenericLister.
func (p params) ByNamespace(namespace string) cache.GenericNamespaceLister {
	p.namespace = namespace
	return p
}

// List implements cache.GenericLister.
func (p params) List(selector labels.Selector) (found []runtime.Object, err error) {
	snapshot, err := p.store.Snapshot(p.ctx, p.served.ResourceName(), resources.At{Match: resources.Any, Namespace: p.namespace})
	if err != nil {
		return nil, err
	}
	snapshot.Ascend(p.namespace, "", func(o *resources.Object) bool {
		if !selector.Matches(o.Labels) {
			return true
		}
		var obj runtime.Object
		if obj, err = p.shown(o); err == nil {
			found = append(found, obj)
			err = p.ctx.Err()
		}
		return err == nil
	})
	return found, err
}

// Get implements cache.GenericLister.
func (p params) Get(name string) (runtime.Object, error) {
	key := p.served.KeyOf(p.namespace, name)
	o, err := p.store.Get(p.ctx, key, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		// Another server may have created it a moment ago.
		o, err = p.store.Get(p.ctx, key, resources.At{Match: resources.MostRecent})
	}
	if errors.Is(err, resources.ErrNotFound) {
		return nil, apierrors.NewNotFound(p.served.GroupResource, name)
	}
	if err != nil {
		return nil, err
	}
	return p.shown(o)
}

// shown is show for an object that may have been shown before. Upstream's code shares the objects of its informers, too.
func (p params) shown(o *resources.Object) (runtime.Object, error) {
	kept, err := p.served.Memo(shownKey{}, func() (any, error) { return &shownParams{objects: map[resources.Key]shownParam{}}, nil })
	if err != nil {
		return nil, err
	}
	known := kept.(*shownParams)
	if obj := known.get(o); obj != nil {
		return obj, nil
	}
	obj, err := p.show(o)
	if err == nil {
		known.add(o, obj)
	}
	return obj, err
}

// shownParams keeps parameters of a type in a version as clients see them. When there is no more room, all are dropped.
type shownParams struct {
	mu      sync.Mutex
	objects map[resources.Key]shownParam
	size    int
}

type shownParam struct {
	revision int64
	size     int
	obj      runtime.Object
}

type shownKey struct{}

// maxShown bounds the memory of the parameters of a type, about.
const maxShown = 64 << 20

func (s *shownParams) get(o *resources.Object) runtime.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.objects[o.Key]; p.revision == o.Revision {
		return p.obj
	}
	return nil
}

func (s *shownParams) add(o *resources.Object, obj runtime.Object) {
	size := len(o.Data) // and some 64 bytes for each value, string, list or object
	for _, c := range o.Data {
		if c == '"' || c == ',' || c == '[' || c == '{' {
			size += 48
		}
	}
	if size > maxShown {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size += size - s.objects[o.Key].size; s.size > maxShown {
		clear(s.objects)
		s.size = size
	}
	s.objects[o.Key] = shownParam{o.Revision, size, obj}
}

// show returns an object as clients see it in the version.
func (p params) show(o *resources.Object) (runtime.Object, error) {
	hub, err := p.served.DecodeHubInContext(p.ctx, o)
	if err != nil {
		return nil, err
	}
	versioned, err := p.served.ToVersion(hub, p.served.GroupVersion())
	if err != nil {
		return nil, err
	}
	if _, ok := versioned.(*unstructured.Unstructured); ok {
		return versioned, nil
	}
	if m, err := meta.Accessor(versioned); err == nil && scheme.Scheme.Recognizes(p.served.GroupVersionKind) {
		m.SetManagedFields(nil) // kube-apiserver's informers of kinds in client-go drop them
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(p.served.GroupVersionKind)
	return u, nil
}
