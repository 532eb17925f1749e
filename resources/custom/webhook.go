package custom

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// ask makes the webhook convert objects of the definition. It may change them.
//
// Errors: those of ctx (but see resources.ErrImpatient), and upstream's converter's, whose text names the kind of its argument: a list has the kind
// of its first item.
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
	l.ctx, l.silent = asking, false
	made, err := d.convertedBy(c, objects, to)
	if err != nil && l.silent {
		err = noAnswer{err}
	}
	if err != nil {
		return nil, unconverted(ctx, err)
	}
	return made, nil
}

// noAnswer is the error of a request that reached a webhook and that the webhook did not answer.
type noAnswer struct{ error }

// unconverted is the error of a conversion by a webhook: the request's own error if its context has ended.
func unconverted(ctx context.Context, err error) error {
	if over := ctx.Err(); over != nil && !errors.Is(context.Cause(ctx), resources.ErrImpatient) {
		return over
	}
	return &resources.ConversionError{Err: err}
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

// services resolves Services to URLs.
type services struct{ line *line }

// ResolveEndpoint implements webhook.ServiceResolver.
func (s services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if s.line.of.isSelf(namespace, name, int(port)) {
		return &url.URL{Scheme: "https", Host: name + "." + namespace + ".svc"}, nil
	}
	l := s.line.of.behind.With(s.line.ctx, resources.At{Match: resources.Any})
	return l.Resolve(s.line.of.config.ServiceRouting, namespace, name, port)
}
