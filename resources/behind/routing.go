package behind

import (
	"net/url"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/utils/ptr"
)

// Routing says where requests for a Service are sent. A Service of the type ExternalName stands for its name, except with ToEndpoints, which
// refuses it as kube-apiserver does.
type Routing int

const (
	// ToCluster sends them to the ClusterIP, which needs a kube-proxy on the server's machine: kube-apiserver's default.
	ToCluster Routing = iota
	// ToEndpoints sends them to a ready endpoint of the Service's EndpointSlices: kube-apiserver's --enable-aggregator-routing.
	ToEndpoints
	// ToReady sends them to a ready endpoint. For a Service without EndpointSlices, with endpoints that end but still serve, or of the type
	// ExternalName, it does what ToCluster does.
	ToReady
)

// Resolve returns the URL for requests to a port of a Service. Errors: those of upstream's functions and of resources.Reader.
func (l *Lister) Resolve(to Routing, namespace, name string, port int32) (*url.URL, error) {
	if to == ToCluster {
		return utilproxy.ResolveCluster(l, namespace, name, port)
	}
	endpoint, err := utilproxy.ResolveEndpoint(l, l, namespace, name, port)
	if err == nil || to == ToEndpoints || !l.answersElsewhere(namespace, name) {
		return endpoint, err
	}
	if cluster, failed := utilproxy.ResolveCluster(l, namespace, name, port); failed == nil {
		return cluster, nil
	}
	return nil, err // why there is no endpoint, which says more about the Service
}

// answersElsewhere reports whether a Service without a ready endpoint may answer at its ClusterIP or name: nobody makes EndpointSlices for it, it has the
// type ExternalName, or it has endpoints that end but still serve, to which a kube-proxy sends requests then. Otherwise a request would hang until its
// timeout.
func (l *Lister) answersElsewhere(namespace, name string) bool {
	service, err := l.Service(namespace, name)
	if err != nil {
		return false
	}
	if service.Spec.Type == v1.ServiceTypeExternalName {
		return true
	}
	all, err := l.GetEndpointSlices(namespace, name)
	if err != nil {
		return false
	}
	return len(all) == 0 || slices.ContainsFunc(all, func(s *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return ptr.Deref(e.Conditions.Serving, false) && ptr.Deref(e.Conditions.Terminating, false)
		})
	})
}
