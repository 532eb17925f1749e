package behind

import (
	"net/url"

	v1 "k8s.io/api/core/v1"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
)

// Routing says where requests for a Service are sent. A Service of the type ExternalName stands for its name, except with ToEndpoints, which
// refuses it as kube-apiserver does.
type Routing int

const (
	// ToCluster sends them to the ClusterIP, which needs a kube-proxy on the server's machine: kube-apiserver's default.
	ToCluster Routing = iota
	// ToEndpoints sends them to a ready endpoint of the Service's EndpointSlices: kube-apiserver's --enable-aggregator-routing.
	ToEndpoints
	// ToReady sends them to a ready endpoint. For a Service without EndpointSlices or of the type ExternalName, it does what ToCluster does.
	ToReady
)

// Resolve returns the URL for requests to a port of a Service. Errors: those of upstream's functions and of resources.Reader.
func (l *Lister) Resolve(to Routing, namespace, name string, port int32) (*url.URL, error) {
	if to == ToCluster {
		return utilproxy.ResolveCluster(l, namespace, name, port)
	}
	endpoint, err := utilproxy.ResolveEndpoint(l, l, namespace, name, port)
	if err == nil || to == ToEndpoints || !l.standsAlone(namespace, name) {
		return endpoint, err
	}
	if cluster, failed := utilproxy.ResolveCluster(l, namespace, name, port); failed == nil {
		return cluster, nil
	}
	return nil, err // why there is no endpoint, which says more about the Service
}

// standsAlone reports whether a Service has no EndpointSlices that say where it leads: nobody makes them, or it has the type ExternalName. The
// ClusterIP of a Service with EndpointSlices leads to the same endpoints: if none is ready, a request would hang there until its timeout.
func (l *Lister) standsAlone(namespace, name string) bool {
	service, err := l.Service(namespace, name)
	if err != nil {
		return false
	}
	if service.Spec.Type == v1.ServiceTypeExternalName {
		return true
	}
	slices, err := l.GetEndpointSlices(namespace, name)
	return err == nil && len(slices) == 0
}
