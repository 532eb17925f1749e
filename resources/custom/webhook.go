package custom

import (
	"context"
	"fmt"
	"net/url"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/webhook"
	corelisters "k8s.io/client-go/listers/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
)

// converters makes what asks the conversion webhooks of definitions: upstream's, with one set of connections for all of them.
func converters(store resources.Reader) func() (*conversion.CRConverterFactory, error) {
	return sync.OnceValues(func() (*conversion.CRConverterFactory, error) {
		return conversion.NewCRConverterFactory(clusterServices{store}, func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
			return delegate
		})
	})
}

// newConverter makes what asks the webhook of the definition; nil: it has none.
func (d *definition) newConverter(crd *apiextensionsv1.CustomResourceDefinition, factory func() (*conversion.CRConverterFactory, error)) func() (runtime.ObjectConvertor, error) {
	if c := crd.Spec.Conversion; c == nil || c.Strategy != apiextensionsv1.WebhookConverter {
		return nil
	}
	return sync.OnceValues(func() (runtime.ObjectConvertor, error) {
		crd, err := d.decode() // not the one at hand, which would stay as long as the definition
		if err != nil {
			return nil, err
		}
		f, err := factory()
		if err != nil {
			return nil, err
		}
		_, unsafe, err := f.NewConverter(&crd.CustomResourceDefinition)
		return unsafe, err
	})
}

// ask has the webhook convert objects of the definition. They may be changed.
//
// Errors are worded by upstream's converter, which names the kind of what it was given: a list has that of its first item.
func (d *definition) ask(objects []unstructured.Unstructured, to string) ([]unstructured.Unstructured, error) {
	c, err := d.converter()
	if err != nil {
		return nil, err
	}
	if len(objects) == 1 {
		converted, err := c.ConvertToVersion(&objects[0], d.gv(to))
		if err != nil {
			return nil, err
		}
		if u, ok := converted.(*unstructured.Unstructured); ok {
			return []unstructured.Unstructured{*u}, nil
		}
		return nil, fmt.Errorf("conversion of %s made a %T", d.name, converted)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{}, Items: objects}
	list.SetGroupVersionKind(objects[0].GroupVersionKind())
	converted, err := c.ConvertToVersion(list, d.gv(to))
	if err != nil {
		return nil, err
	}
	if made, ok := converted.(*unstructured.UnstructuredList); ok && len(made.Items) == len(objects) {
		return made.Items, nil
	}
	return nil, fmt.Errorf("conversion of %s made a %T", d.name, converted)
}

// clusterServices finds where Services are reached, by their addresses in the cluster.
type clusterServices struct{ store resources.Reader }

// ResolveEndpoint implements webhook.ServiceResolver.
func (s clusterServices) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return utilproxy.ResolveCluster(s, namespace, name, port)
}

// Services implements corelisters.ServiceLister, as far as ResolveCluster asks.
func (s clusterServices) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesIn{nil, s.store, namespace}
}

// List implements corelisters.ServiceLister. Nobody asks for it.
func (s clusterServices) List(labels.Selector) ([]*corev1.Service, error) {
	return nil, fmt.Errorf("services are looked up by name")
}

type servicesIn struct {
	corelisters.ServiceNamespaceLister // nil: nobody lists

	store     resources.Reader
	namespace string
}

// Get returns a Service as it is stored.
func (s servicesIn) Get(name string) (*corev1.Service, error) {
	o, err := s.store.Get(context.Background(), resources.Key{Resource: "services", Namespace: s.namespace, Name: name}, resources.At{Match: resources.Any})
	if err != nil {
		return nil, fmt.Errorf("service %s/%s: %w", s.namespace, name, err)
	}
	service := &corev1.Service{}
	return service, kjson.UnmarshalCaseSensitivePreserveInts(o.Data, service)
}
