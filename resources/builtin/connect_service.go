package builtin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
)

// serviceProxy proxies to a pod behind a Service.
func serviceProxy(services, pods, endpointSlices *resources.Type, family core.IPFamily) *resources.Subresource {
	return &resources.Subresource{
		Name: "proxy", Kind: coreV1.WithKind("ServiceProxyOptions"), Verbs: proxyVerbs,
		Connect: func(s resources.Reader) rest.Connecter {
			b := behindService{getter{services, s}, getter{pods, s}, endpointSlices, v1.IPFamily(family)}
			return proxied[core.ServiceProxyOptions, *core.ServiceProxyOptions]{b.locate, func(o *core.ServiceProxyOptions) string { return o.Path }}
		},
	}
}

// behindService finds the endpoints of Services.
type behindService struct {
	services, pods getter
	endpointSlices *resources.Type
	family         v1.IPFamily // the family of the first range of addresses, which is preferred
}

func (b behindService) locate(ctx context.Context, id string) (*url.URL, http.RoundTripper, error) {
	scheme, name, port, valid := utilnet.SplitSchemeNamePort(id)
	if !valid {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("invalid service request %q", id))
	}
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		if port, err = b.portName(ctx, name, number); err != nil {
			return nil, nil, err
		}
	}
	if genericapirequest.NamespaceValue(ctx) == "" {
		return nil, nil, apierrors.NewBadRequest("missing required namespace")
	}
	endpoints, err := b.endpoints(ctx, name)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	// No endpoint at all gives the same error as no ready endpoint.
	host, err := utilproxy.RandomEndpoint(name, endpoints, port, b.family, func(e *discoveryv1.Endpoint) bool { return b.isPod(ctx, e) })
	if err != nil {
		return nil, nil, err
	}
	return &url.URL{Scheme: scheme, Host: host}, proxyTransport(), nil
}

// portName is the name of a port that was requested by its number.
func (b behindService) portName(ctx context.Context, name string, number int64) (string, error) {
	obj, err := b.services.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	ports := obj.(*core.Service).Spec.Ports
	i := slices.IndexFunc(ports, func(p core.ServicePort) bool { return int64(p.Port) == number })
	if i < 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
	}
	return ports[i].Name, nil
}

// endpoints are the EndpointSlices of a Service.
func (b behindService) endpoints(ctx context.Context, service string) ([]*discoveryv1.EndpointSlice, error) {
	return behind.Slices(ctx, b.services.s, b.endpointSlices, genericapirequest.NamespaceValue(ctx), service)
}

// isPod reports whether an endpoint is a pod of the namespace: a user who invents an endpoint must not reach it through the
// server.
func (b behindService) isPod(ctx context.Context, e *discoveryv1.Endpoint) bool {
	if e.TargetRef == nil || e.TargetRef.Namespace != genericapirequest.NamespaceValue(ctx) || len(e.Addresses) == 0 {
		return false
	}
	obj, err := b.pods.Get(ctx, e.TargetRef.Name, &metav1.GetOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(obj.(*core.Pod).Status.PodIPs, func(ip core.PodIP) bool { return ip.IP == e.Addresses[0] })
}
