// Package behind finds the endpoints behind Services: it has the stored Services and their EndpointSlices in the form that upstream's rules
// need (k8s.io/apiserver/pkg/util/proxy).
package behind

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	listersv1 "k8s.io/client-go/listers/core/v1"

	"github.com/rowlock/rowlock/resources"
)

// The types, by their names in the store.
const (
	ServicesResource = "services"
	SlicesResource   = "endpointslices.discovery.k8s.io"
)

// Self reports whether a port of a Service is the server's own, which needs no endpoints: as in kube-apiserver, whatever the Service's
// endpoints are.
func Self(namespace, name string, port int) bool {
	return namespace == metav1.NamespaceDefault && name == "kubernetes" && port == 443
}

// Lister reads Services and EndpointSlices from a store, at the point At. It caches decoded objects as long as they are the stored ones, and
// is safe for concurrent use. It lasts for one request; see With.
type Lister struct {
	reader   resources.Reader
	registry *resources.Registry
	decoded  *decoded
	ctx      context.Context
	at       resources.At
}

// New returns a Lister of the state at hand.
func New(reader resources.Reader, registry *resources.Registry) *Lister {
	return &Lister{reader: reader, registry: registry, decoded: &decoded{}, ctx: context.Background(), at: resources.At{Match: resources.Any}}
}

// With returns a Lister for a request, at a point. The two share their cache.
func (l Lister) With(ctx context.Context, at resources.At) *Lister {
	l.ctx, l.at = ctx, at
	return &l
}

// Forget drops the cached Services and EndpointSlices.
func (l *Lister) Forget() { l.decoded.objects.Clear() }

// Service returns a Service. Errors: NotFound as from upstream's listers; those of resources.Reader.
func (l *Lister) Service(namespace, name string) (*v1.Service, error) {
	t, ok := l.registry.CatalogOf(l.ctx).Type(ServicesResource)
	if !ok {
		return nil, apierrors.NewNotFound(v1.Resource("service"), name)
	}
	o, err := l.reader.Get(l.ctx, t.KeyOf(namespace, name), l.at)
	if errors.Is(err, resources.ErrNotFound) {
		return nil, apierrors.NewNotFound(v1.Resource("service"), name)
	}
	if err != nil {
		return nil, err
	}
	obj, err := l.decoded.get(t, o)
	if err != nil {
		return nil, err
	}
	return obj.(*v1.Service), nil
}

// GetEndpointSlices implements upstream's EndpointSliceGetter; see Slices. The slice is the caller's, its elements are shared.
func (l *Lister) GetEndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	t, ok := l.registry.CatalogOf(l.ctx).Type(SlicesResource)
	if !ok {
		return nil, nil
	}
	return slicesOf(l.ctx, l.reader, t, namespace, service, l.at, l.decoded.get)
}

// Slices are the EndpointSlices of a Service, in the state at hand. One that cannot be read is left out; if none can be read, that is an error.
func Slices(ctx context.Context, reader resources.Reader, t *resources.Type, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	return slicesOf(ctx, reader, t, namespace, service, resources.At{Match: resources.Any}, (*resources.Type).DecodeStored)
}

func slicesOf(ctx context.Context, reader resources.Reader, t *resources.Type, namespace, service string, at resources.At,
	decode func(*resources.Type, *resources.Object) (runtime.Object, error)) ([]*discoveryv1.EndpointSlice, error) {
	at.Namespace = namespace
	snapshot, err := reader.Snapshot(ctx, t.ResourceName(), at)
	if err != nil {
		return nil, err
	}
	var found []*discoveryv1.EndpointSlice
	var failed error
	snapshot.Ascend(namespace, "", func(o *resources.Object) bool {
		if o.Labels[discoveryv1.LabelServiceName] != service {
			return true
		}
		obj, err := decode(t, o)
		if err == nil {
			found = append(found, obj.(*discoveryv1.EndpointSlice))
		}
		failed = errors.Join(failed, err)
		return true
	})
	if len(found) > 0 {
		return found, nil
	}
	return nil, failed
}

// Services implements upstream's ServiceLister.
func (l *Lister) Services(namespace string) listersv1.ServiceNamespaceLister {
	return inNamespace{l, namespace}
}

// List implements upstream's ServiceLister. It is not called.
func (l *Lister) List(labels.Selector) ([]*v1.Service, error) { return nil, errors.ErrUnsupported }

type inNamespace struct {
	*Lister
	namespace string
}

// Get implements upstream's ServiceNamespaceLister.
func (n inNamespace) Get(name string) (*v1.Service, error) { return n.Service(n.namespace, name) }

// decoded caches the last decoded form of objects. It is cleared when it is full: some of the objects may be gone.
type decoded struct {
	objects sync.Map
	added   atomic.Int64
}

// mostDecoded is the number of objects and revisions that are added before the cache is cleared.
const mostDecoded = 256

type form struct {
	revision int64
	obj      runtime.Object
}

func (d *decoded) get(t *resources.Type, o *resources.Object) (runtime.Object, error) {
	if known, ok := d.objects.Load(o.Key); ok && known.(form).revision == o.Revision {
		return known.(form).obj, nil
	}
	obj, err := t.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	if d.added.Add(1)%mostDecoded == 0 {
		d.objects.Clear()
	}
	d.objects.Store(o.Key, form{o.Revision, obj})
	return obj, nil
}
