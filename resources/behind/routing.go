package behind

import (
	"net/url"

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
	// ToReady sends them to a ready endpoint if there is one, otherwise as ToCluster does.
	ToReady
)

// Resolve returns the URL for requests to a port of a Service. Errors: those of upstream's functions and of resources.Reader.
func (l *Lister) Resolve(to Routing, namespace, name string, port int32) (*url.URL, error) {
	if to != ToCluster {
		if endpoint, err := utilproxy.ResolveEndpoint(l, l, namespace, name, port); err == nil || to == ToEndpoints {
			return endpoint, err
		}
	}
	return utilproxy.ResolveCluster(l, namespace, name, port)
}
