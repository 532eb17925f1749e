package controlplane

import (
	"context"
	"errors"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/apis/core"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// serviceName is the name of the Service by which clients within a cluster reach its API, and the name of the default ServiceCIDR.
const serviceName = "kubernetes"

// Network says how clients within a cluster reach the server.
type Network struct {
	// ServiceRanges are the ranges of the default ServiceCIDR. The Service gets the first address of the first range.
	ServiceRanges []net.IPNet
	// Address is the address in the Service's endpoint. Nil: there is no endpoint.
	Address net.IP
	// NoEndpoint: this server is no endpoint of the Service, although it has an address.
	NoEndpoint bool
	// Port is where the server listens.
	Port int
	// Members are the servers that share the database; each is an endpoint. Nil: no others are known, and the server
	// that started last is the endpoint.
	Members Members
	// Rows stores how each member is reached, and has the allocated node ports. Nil: node ports are not repaired.
	Rows *resources.Rows
	// NodePorts is the range of the node ports.
	NodePorts utilnet.PortRange
	// NodePort is the node port of the Service when it is created. 0: it has none.
	NodePort int
	// PeerAddress is the host and port at which other servers would reach this one. Empty: Address and Port.
	PeerAddress string
}

// isEndpoint tells whether this server is an endpoint of the Service.
func (n Network) isEndpoint() bool { return n.Address != nil && !n.NoEndpoint }

// BootstrapServices creates the default ServiceCIDR and the Service "kubernetes", repairs the addresses and node ports of
// Services, and makes this server one of the endpoints of "kubernetes". It runs after Bootstrap, when the port is known. Several servers may run it at once. Errors: those of Bootstrap.
func (p *Plane) BootstrapServices(ctx context.Context, n Network) error {
	return untilRecorded(ctx, p.Logger, func() error { return p.bootstrapServices(ctx, n) })
}

func (p *Plane) bootstrapServices(ctx context.Context, n Network) error {
	if err := p.unlessRefused(p.ensureReachable(ctx, n, nil)); err != nil { // keepServices looks again at once, and reports
		return err
	}
	if err := p.repairServices(ctx, n); err != nil {
		return err
	}
	p.Front.Finish(serviceHooks...)
	switch {
	case !n.isEndpoint():
		return nil
	case n.Members == nil:
		return p.unlessRefused(p.ensureEndpoints(ctx, n.alone))
	}
	return p.unlessRefused(n.membership().reconcile(ctx, p))
}

// repairFor is how long a start waits for repairs that are refused. kube-apiserver ends then.
const repairFor = time.Minute

// repairServices makes the repairs of Keep for the first time: an imported Service may have an address or a port which nothing allocates, and
// that another Service could get from the first request on. kube-apiserver is not ready before, either. A repair that fails because of an object,
// a webhook or a full disk is left to Keep: a server with a full disk answers reads.
func (p *Plane) repairServices(ctx context.Context, n Network) error {
	for _, r := range p.reporters {
		r.holds, r.held = true, nil
	}
	var repairs []func(context.Context, []*resources.Event) (time.Duration, error)
	if r := p.newAddressRepair(); r != nil {
		r.until = time.Now().Add(repairFor)
		repairs = append(repairs, r.do)
	}
	if r := p.newPortRepair(n); r != nil {
		repairs = append(repairs, r.do)
	}
	for _, repair := range repairs {
		for again := time.Nanosecond; again == time.Nanosecond; { // due at once
			var err error
			if again, err = repair(ctx, nil); lost(ctx, err) && !errors.Is(err, resources.ErrFull) {
				return errors.Join(err, ctx.Err())
			}
			if err != nil {
				p.Logger.Error("the addresses and node ports of Services could not all be repaired", "error", err)
			}
		}
	}
	return nil
}

// alone is the endpointSource of a server that knows no others.
func (n Network) alone(bool) ([]endpoint, error) { return []endpoint{{n.Address, n.Port}}, nil }

// ensureReachable creates the objects that are the same for every server: the default ServiceCIDR and the Service. report
// writes Events about the ServiceCIDR; it may be nil.
func (p *Plane) ensureReachable(ctx context.Context, n Network, report *reporter) error {
	var refused refusals
	if err := refused.pass(p.ensureRange(ctx, n.ServiceRanges, report)); err != nil {
		return err
	}
	// The Service's address may belong to another Service, or lie outside all ranges.
	if err := p.unlessRefused(p.ensureService(ctx, n)); err != nil {
		return err
	}
	return refused.err()
}

func (p *Plane) ensureService(ctx context.Context, n Network) error {
	t, ok := p.Registry.Catalog().Type("services")
	if !ok {
		return nil
	}
	first, err := netutils.GetIndexedIP(&n.ServiceRanges[0], 1)
	if err != nil {
		return err
	}
	return p.ensure(ctx, t, metav1.NamespaceDefault, serviceName, func(exists bool, obj runtime.Object) error {
		if exists {
			return nil
		}
		service := obj.(*core.Service)
		service.Labels = map[string]string{"provider": "kubernetes", "component": "apiserver"}
		service.Spec = core.ServiceSpec{
			ClusterIP:       first.String(),
			IPFamilyPolicy:  ptr.To(core.IPFamilyPolicySingleStack),
			SessionAffinity: core.ServiceAffinityNone,
			Type:            core.ServiceTypeClusterIP,
			Ports: []core.ServicePort{{Name: "https", Protocol: core.ProtocolTCP, Port: 443,
				TargetPort: intstr.FromInt32(int32(n.Port))}},
		}
		if n.NodePort > 0 {
			service.Spec.Type, service.Spec.Ports[0].NodePort = core.ServiceTypeNodePort, int32(n.NodePort)
		}
		return nil
	})
}
