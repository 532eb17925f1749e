package custom

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	corelisters "k8s.io/client-go/listers/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
)

// ask has the webhook convert objects of the definition. They may be changed.
//
// Errors: those of ctx, and others as upstream's converter words them, which names the kind of what it was given: a list has that of its
// first item.
func (d *definition) ask(ctx context.Context, objects []unstructured.Unstructured, to string) ([]unstructured.Unstructured, error) {
	l, err := d.lines.take()
	if err != nil {
		return nil, err
	}
	defer d.lines.put(l)
	c, err := l.converter(d)
	if err != nil {
		return nil, err
	}
	asking, end := context.WithCancel(ctx)
	defer end()
	l.ctx = asking
	made, err := d.convertedBy(c, objects, to)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return made, err
}

func (d *definition) convertedBy(c runtime.ObjectConvertor, objects []unstructured.Unstructured, to string) ([]unstructured.Unstructured, error) {
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
type clusterServices struct{ line *line }

// ResolveEndpoint implements webhook.ServiceResolver.
func (s clusterServices) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	return utilproxy.ResolveCluster(s, namespace, name, port)
}

// Services implements corelisters.ServiceLister, as far as ResolveCluster asks.
func (s clusterServices) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servicesIn{nil, s.line, namespace}
}

// List implements corelisters.ServiceLister. Nobody asks for it.
func (s clusterServices) List(labels.Selector) ([]*corev1.Service, error) {
	return nil, fmt.Errorf("services are looked up by name")
}

type servicesIn struct {
	corelisters.ServiceNamespaceLister // nil: nobody lists

	line      *line
	namespace string
}

// Get returns a Service as it is stored. One that is missing is missed in the words of upstream's listers.
func (s servicesIn) Get(name string) (*corev1.Service, error) {
	o, err := s.line.store.Get(s.line.ctx, resources.Key{Resource: "services", Namespace: s.namespace, Name: name}, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, apierrors.NewNotFound(corev1.Resource("service"), name)
	}
	if err != nil {
		return nil, fmt.Errorf("service %s/%s: %w", s.namespace, name, err)
	}
	service := &corev1.Service{}
	return service, kjson.UnmarshalCaseSensitivePreserveInts(o.Data, service)
}
