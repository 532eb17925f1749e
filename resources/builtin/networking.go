package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"

	"github.com/rowlock/rowlock/resources"
)

var networkingV1 = schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}

func networkingGroup(addresses, cidrs *resources.Type) resources.GroupSpec {
	v1 := networkingV1
	return single(v1,
		define[networking.IngressClass, networking.IngressClassList](v1, "ingressclasses", ingressclass.Strategy),
		define[networking.Ingress, networking.IngressList](v1, "ingresses", ingress.Strategy,
			short("ing"), status(ingress.StatusStrategy)),
		addresses,
		define[networking.NetworkPolicy, networking.NetworkPolicyList](v1, "networkpolicies", networkpolicy.Strategy, short("netpol")),
		cidrs,
	)
}

func ipAddresses() *resources.Type {
	return define[networking.IPAddress, networking.IPAddressList](networkingV1, "ipaddresses", ipaddress.Strategy, short("ip"))
}

func serviceCIDRs() *resources.Type {
	return define[networking.ServiceCIDR, networking.ServiceCIDRList](networkingV1, "servicecidrs", servicecidr.Strategy,
		status(servicecidr.StatusStrategy))
}
