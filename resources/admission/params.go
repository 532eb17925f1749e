package admission

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/resources"
)

// params are the parameters of policies: the objects of a type in a version, read from the store when a policy needs them. It is both
// the informer that upstream's code asks for, and its lister.
type params struct {
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
	snapshot, err := p.store.Snapshot(context.Background(), p.served.ResourceName(), resources.At{Match: resources.Any, Namespace: p.namespace})
	if err != nil {
		return nil, err
	}
	snapshot.Ascend(p.namespace, "", func(o *resources.Object) bool {
		if !selector.Matches(o.Labels) {
			return true
		}
		var obj runtime.Object
		if obj, err = p.show(o); err == nil {
			found = append(found, obj)
		}
		return err == nil
	})
	return found, err
}

// Get implements cache.GenericLister.
func (p params) Get(name string) (runtime.Object, error) {
	key := p.served.KeyOf(p.namespace, name)
	o, err := p.store.Get(context.Background(), key, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		// Another server may have created it a moment ago.
		o, err = p.store.Get(context.Background(), key, resources.At{Match: resources.MostRecent})
	}
	if errors.Is(err, resources.ErrNotFound) {
		return nil, apierrors.NewNotFound(p.served.GroupResource, name)
	}
	if err != nil {
		return nil, err
	}
	return p.show(o)
}

// show returns an object as clients see it in the version.
func (p params) show(o *resources.Object) (runtime.Object, error) {
	hub, err := p.served.DecodeHub(o)
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
