package controlplane

import (
	"context"
	"net"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

const (
	// serviceName is the name of the Service by which clients within a cluster reach its API, and the name of the default ServiceCIDR.
	serviceName = "kubernetes"
	// rangeManager is the field manager of the default ServiceCIDR's condition: the name of kube-apiserver's controller.
	rangeManager = "kubernetes-service-cidr-controller"
	rangeIsReady = "Kubernetes default Service CIDR is ready"
)

// Network says how clients within a cluster reach the server.
type Network struct {
	// ServiceRanges are the ranges of the default ServiceCIDR. The Service gets the first address of the first range.
	ServiceRanges []net.IPNet
	// Address is the address in the Service's endpoint. Nil: there is no endpoint.
	Address net.IP
	// Port is where the server listens.
	Port int
	// Members are the servers that share the database; each is an endpoint. Nil: no others are known, and the server
	// that started last is the endpoint.
	Members Members
	// Rows stores how each member is reached.
	Rows *resources.Rows
}

// BootstrapServices creates the default ServiceCIDR and the Service "kubernetes", and makes this server one of its endpoints.
// It runs after Bootstrap, when the port is known. Several servers may run it at once. Errors: those of Bootstrap.
func (p *Plane) BootstrapServices(ctx context.Context, n Network) error {
	return untilRecorded(ctx, p.Logger, func() error { return p.bootstrapServices(ctx, n) })
}

func (p *Plane) bootstrapServices(ctx context.Context, n Network) error {
	if err := p.unlessRefused(p.ensureReachable(ctx, n)); err != nil {
		return err
	}
	p.Front.Finish(serviceHooks...)
	switch {
	case n.Address == nil:
		return nil
	case n.Members == nil:
		return p.unlessRefused(p.ensureEndpoints(ctx, n.alone))
	}
	return p.unlessRefused(n.membership().reconcile(ctx, p))
}

// alone is the endpointSource of a server that knows no others.
func (n Network) alone(bool) ([]endpoint, error) { return []endpoint{{n.Address, n.Port}}, nil }

// ensureReachable creates the objects that are the same for every server: the default ServiceCIDR and the Service.
func (p *Plane) ensureReachable(ctx context.Context, n Network) error {
	var refused refusals
	if err := refused.pass(p.ensureRange(ctx, n.ServiceRanges)); err != nil {
		return err
	}
	// The Service's address may belong to another Service, or lie outside all ranges.
	if err := p.unlessRefused(p.ensureService(ctx, n)); err != nil {
		return err
	}
	return refused.err()
}

// ensureRange creates the default ServiceCIDR, or adds the range of a second family. An existing range is not changed,
// since Services have addresses from it.
func (p *Plane) ensureRange(ctx context.Context, ranges []net.IPNet) error {
	t, ok := p.Registry.Catalog().Type("servicecidrs.networking.k8s.io")
	if !ok {
		return nil
	}
	var cidrs []string
	for i := range ranges {
		cidrs = append(cidrs, ranges[i].String())
	}
	err := p.ensure(ctx, t, "", serviceName, func(exists bool, obj runtime.Object) error {
		spec := &obj.(*networking.ServiceCIDR).Spec
		if !exists || len(cidrs) == 2 && len(spec.CIDRs) == 1 && spec.CIDRs[0] == cidrs[0] {
			spec.CIDRs = cidrs
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.markRange(ctx, t, cidrs)
}

// toMark tells whether to set the condition Ready of the default ServiceCIDR: it is not set yet, and the range is the
// configured one.
func (p *Plane) toMark(c *networking.ServiceCIDR, cidrs []string) bool {
	ready := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if (ready == nil || ready.Status == metav1.ConditionUnknown) && c.DeletionTimestamp == nil && slices.Equal(c.Spec.CIDRs, cidrs) {
		return true
	}
	if ready == nil || ready.Status != metav1.ConditionTrue {
		p.Logger.Warn("the default ServiceCIDR is not the one configured, or not ready", "is", c.Spec.CIDRs, "configured", cidrs)
	}
	return false
}

// markRange sets the condition Ready of the default ServiceCIDR if toMark says so.
func (p *Plane) markRange(ctx context.Context, t *resources.Type, cidrs []string) error {
	manager, err := t.ServerManager("status")
	if err != nil {
		return err
	}
	live, err := p.Store.Get(ctx, t.KeyOf("", serviceName), resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	if is, err := t.DecodeHubInContext(ctx, live); err != nil || !p.toMark(is.(*networking.ServiceCIDR), cidrs) {
		return err
	}
	r := resources.UpdateRequest{Type: t, Name: serviceName}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		if c := existing.(*networking.ServiceCIDR); !p.toMark(c, cidrs) {
			return c.DeepCopy(), nil
		}
		patch := conditionPatch(t, serviceName, map[string]any{"type": networkingv1.ServiceCIDRConditionReady,
			"status": string(metav1.ConditionTrue), "message": rangeIsReady})
		return manager.Apply(existing, patch, rangeManager, true)
	}
	_, _, err = p.Pipeline.Update(resources.APIServer.Request(ctx, "update", t, t.KeyOf("", serviceName), "status"), &r)
	return err
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
		return nil
	})
}
