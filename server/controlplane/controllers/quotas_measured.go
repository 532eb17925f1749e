package controllers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/resource"
	informersv1 "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/indexer"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// measuredType is a type for which a quota measures more than the number of its objects.
type measuredType struct {
	gvr     schema.GroupVersionResource
	indexer *indexer.Indexer
}

// measuredTypes are the types for which upstream has evaluators of their own.
func measuredTypes(store resources.Reader) map[string]measuredType {
	all := map[string]measuredType{}
	for gvr, obj := range map[schema.GroupVersionResource]runtime.Object{
		corev1.SchemeGroupVersion.WithResource("pods"):                   &corev1.Pod{},
		corev1.SchemeGroupVersion.WithResource("services"):               &corev1.Service{},
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"): &corev1.PersistentVolumeClaim{},
		resourcev1.SchemeGroupVersion.WithResource("resourceclaims"):     &resourcev1.ResourceClaim{},
	} {
		i := indexer.New(store, obj)
		all[i.Resource()] = measuredType{gvr, i}
	}
	return all
}

// quotaListers provides the listers for upstream's evaluators.
type quotaListers struct {
	store    resources.Reader
	measured map[string]measuredType
}

// of implements quota.ListerForResourceFunc.
func (l quotaListers) of(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
	gr := gvr.GroupResource()
	if t, ok := l.measured[gr.String()]; ok {
		return cache.NewGenericLister(t.indexer, gr), nil
	}
	return countedLister{list: listForCount(l.store, gr.String())}, nil
}

// countedLister returns lists of the right length without reading the objects.
type countedLister struct {
	cache.GenericLister // nil

	list generic.ListFuncByNamespace
}

func (l countedLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return countedInNamespace{list: l.list, namespace: namespace}
}

type countedInNamespace struct {
	cache.GenericNamespaceLister // nil

	list      generic.ListFuncByNamespace
	namespace string
}

// List implements cache.GenericNamespaceLister, for the selector that selects all.
func (l countedInNamespace) List(labels.Selector) ([]runtime.Object, error) {
	return l.list(l.namespace)
}

// listForCount returns a function that lists objects of a resource for counting: each entry is the same empty object.
func listForCount(store resources.Reader, resource string) generic.ListFuncByNamespace {
	one := &metav1.PartialObjectMetadata{}
	return func(namespace string) (all []runtime.Object, err error) {
		now, err := store.Snapshot(context.Background(), resource, resources.At{Match: resources.Any, Namespace: namespace})
		if err != nil {
			return nil, err
		}
		now.Ascend(namespace, "", func(*resources.Object) bool {
			all = append(all, one)
			return true
		})
		return all, nil
	}
}

// quotaRegistry has the evaluators for all types that are served now: upstream's, and for each further type one that counts objects.
type quotaRegistry struct {
	quota.Registry // upstream's

	registry *resources.Registry
	store    resources.Reader
}

func newQuotaRegistry(registry *resources.Registry, store resources.Reader, evaluators []quota.Evaluator) quotaRegistry {
	return quotaRegistry{generic.NewRegistry(evaluators), registry, store}
}

// List implements quota.Registry.
func (r quotaRegistry) List() []quota.Evaluator {
	all, ignored := r.Registry.List(), install.DefaultIgnoredResources()
	r.registry.Catalog().Types(func(t *resources.Type) bool {
		_, ignore := ignored[t.GroupResource]
		if t.Namespaced && t.Stored() && !ignore && r.Get(t.GroupResource) == nil {
			all = append(all, generic.NewObjectCountEvaluator(t.GroupResource, listForCount(r.store, t.ResourceName()), ""))
		}
		return true
	})
	return all
}

// quotaInformers provides the informers that upstream's evaluators use.
type quotaInformers struct {
	informers.SharedInformerFactory // nil

	factory *hosted.Informers
}

func (i quotaInformers) Core() core.Interface         { return core.New(i.factory, "", nil) }
func (i quotaInformers) Resource() resource.Interface { return resourceInformers{factory: i.factory} }

// resourceInformers provides one version of the group: the informers of all versions would link a client for each.
type resourceInformers struct {
	resource.Interface // nil

	factory *hosted.Informers
}

func (r resourceInformers) V1() informersv1.Interface { return informersv1.New(r.factory, "", nil) }
