package builtin

import (
	"context"
	"net"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources"
)

// ServiceNetwork has the ranges of the addresses and ports of Services.
type ServiceNetwork struct {
	// Ranges are the default ServiceCIDR: one range, or one of each IP family. Services that ask for no family get that
	// of the first range. Default 10.43.0.0/16.
	Ranges []net.IPNet
	// NodePorts is the range of node ports. Default 30000-32767.
	NodePorts utilnet.PortRange
}

// DefaultServiceNetwork returns the ranges of a server without a configuration for them.
func DefaultServiceNetwork() ServiceNetwork {
	return ServiceNetwork{
		Ranges:    []net.IPNet{{IP: net.IPv4(10, 43, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}},
		NodePorts: utilnet.PortRange{Base: 30000, Size: 2768},
	}
}

func (n ServiceNetwork) withDefaults() ServiceNetwork {
	d := DefaultServiceNetwork()
	if len(n.Ranges) == 0 {
		n.Ranges = d.Ranges
	}
	if n.NodePorts.Size == 0 {
		n.NodePorts = d.NodePorts
	}
	return n
}

func (n ServiceNetwork) families() []core.IPFamily {
	var all []core.IPFamily
	for i := range n.Ranges {
		all = append(all, familyOf(netutils.IsIPv6CIDR(&n.Ranges[i])))
	}
	return all
}

// family is the family of Services that ask for none.
func (n ServiceNetwork) family() core.IPFamily { return n.withDefaults().families()[0] }

func familyOf(ipv6 bool) core.IPFamily {
	if ipv6 {
		return core.IPv6Protocol
	}
	return core.IPv4Protocol
}

// services is the type whose objects allocate addresses, which are IPAddress objects, from the ranges of ServiceCIDR
// objects, and node ports, which are rows that only this package uses.
func services(n ServiceNetwork, addresses, cidrs *resources.Type) *resources.Type {
	t := define[core.Service, core.ServiceList](coreV1, "services", service.Strategy,
		short("svc"), in("all"), selectBy(service.GetAttrs), returnsDeleted, status(service.StatusStrategy))
	supply := newServiceSupply(n.withDefaults(), addresses, cidrs)
	t.Allocate = func(ctx context.Context, s resources.Reader, obj, old runtime.Object) ([]resources.Write, error) {
		after, _ := obj.(*core.Service)
		before, _ := old.(*core.Service)
		return supply.allocate(ctx, s, after, before)
	}
	return t
}
