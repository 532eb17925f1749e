package custom

import (
	"context"
	"fmt"
	"maps"
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

// ask has the webhook convert an object.
func (d *definition) ask(object map[string]any, to string) error {
	c, err := d.converter()
	if err != nil {
		return err
	}
	converted, err := c.ConvertToVersion(&unstructured.Unstructured{Object: object}, d.gv(to))
	if err != nil {
		return err
	}
	u, ok := converted.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("conversion of %s made a %T", d.name, converted)
	}
	made := maps.Clone(u.Object)
	clear(object)
	maps.Copy(object, made)
	return nil
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
