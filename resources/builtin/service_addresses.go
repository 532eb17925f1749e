package builtin

import (
	"context"
	"errors"
	"net"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	networkingclient "k8s.io/client-go/kubernetes/typed/networking/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/servicecidr"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources"
)

// addressAllocator is upstream's interface to the addresses of one family, for the present allocation. Upstream's allocator for
// one range decides which address comes next, and which ones a range does not have; this file adds the ranges that ServiceCIDR
// objects name (KEP-1880).
type addressAllocator struct {
	family core.IPFamily
	supply *serviceAllocator
}

// ranges calls yield for every range of the family that is in use, until it returns false.
func (f *addressAllocator) ranges(yield func(netip.Prefix, *ipallocator.Allocator) bool) error {
	a := f.supply.current
	var failed error
	a.cidrs.Ascend("", "", func(o *resources.Object) bool {
		hub, err := f.supply.cidrs.DecodeHub(o)
		if err != nil {
			failed = err
			return false
		}
		cidr := hub.(*networking.ServiceCIDR)
		if !inUse(cidr) {
			return true
		}
		for _, text := range cidr.Spec.CIDRs {
			n, prefix, err := parseRange(text)
			if err != nil || familyOf(netutils.IsIPv6CIDR(n)) != f.family {
				continue
			}
			r, err := ipallocator.NewIPAllocator(n, addressClient{a: a}, addressInformer{a: a})
			if err != nil {
				continue // a range too large to allocate from
			}
			if !resources.InDryRun(a.ctx) {
				r.EnableMetrics()
			}
			if !yield(prefix, r) {
				return false
			}
		}
		return true
	})
	return failed
}

// parseRange parses a range in a ServiceCIDR.
func parseRange(text string) (*net.IPNet, netip.Prefix, error) {
	_, n, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return nil, netip.Prefix{}, err
	}
	prefix, err := netip.ParsePrefix(n.String())
	return n, prefix, err
}

// inUse reports whether a range is used: also one without a condition, since there may be no controller manager.
func inUse(c *networking.ServiceCIDR) bool {
	if c.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range c.Status.Conditions {
		if condition.Type == networkingv1.ServiceCIDRConditionReady {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return true
}

// Allocate allocates an address.
func (f *addressAllocator) Allocate(ip net.IP) error {
	address := servicecidr.IPToAddr(ip)
	result := ipallocator.ErrMismatchedNetwork
	err := f.ranges(func(prefix netip.Prefix, r *ipallocator.Allocator) bool {
		if !servicecidr.PrefixContainsIP(prefix, address) {
			return true
		}
		result = r.AllocateService(f.supply.current.service, ip)
		return false
	})
	return errors.Join(err, result)
}

// AllocateNext allocates a free address.
func (f *addressAllocator) AllocateNext() (net.IP, error) {
	var ip net.IP
	result := ipallocator.ErrFull
	err := f.ranges(func(_ netip.Prefix, r *ipallocator.Allocator) bool {
		ip, result = r.AllocateNextService(f.supply.current.service)
		return errors.Is(result, ipallocator.ErrFull)
	})
	return ip, errors.Join(err, result)
}

// Release frees an address. One whose deletion is refused stays, until the repair of addresses may delete it.
func (f *addressAllocator) Release(ip net.IP) error {
	a, t := f.supply.current, f.supply.addresses
	if resources.InDryRun(a.ctx) {
		return nil
	}
	key := t.KeyOf("", ip.String())
	a.free(a.addresses, key, func(o *resources.Object) (*resources.Write, error) {
		hub, err := t.DecodeHub(o)
		if err != nil {
			return nil, err
		}
		ref := hub.(*networking.IPAddress).Spec.ParentRef
		if ref == nil || ref.Group != "" || ref.Resource != "services" || ref.Namespace != a.service.Namespace || ref.Name != a.service.Name {
			return nil, nil
		}
		w, err := resources.DeleteShare(a.ctx, t, o)
		if err != nil {
			klog.Infof("error releasing ip %s : %v", key.Name, err)
		}
		return w, nil
	})
	return nil
}

// Has reports whether an address is allocated.
func (f *addressAllocator) Has(ip net.IP) bool {
	a := f.supply.current
	return a.has(a.addresses, f.supply.addresses.KeyOf("", ip.String()))
}

// IPFamily is the family of all addresses.
func (f *addressAllocator) IPFamily() core.IPFamily { return f.family }

// DryRun is not called by upstream's rules, and neither are the remaining methods.
func (f *addressAllocator) DryRun() ipallocator.Interface { return f }

// ForEach does nothing.
func (f *addressAllocator) ForEach(func(net.IP)) {}

// CIDR returns the zero value: there may be several ranges.
func (f *addressAllocator) CIDR() net.IPNet { return net.IPNet{} }

// Destroy does nothing.
func (f *addressAllocator) Destroy() {}

// EnableMetrics does nothing.
func (f *addressAllocator) EnableMetrics() {}

// The allocator of a range needs a client and an informer for IPAddress objects. These types answer from the snapshot, and add
// to the allocation.
type (
	addressClient struct {
		networkingclient.NetworkingV1Interface
		a *allocation
	}
	addressWriter struct {
		networkingclient.IPAddressInterface
		a *allocation
	}
	addressInformer  struct{ a *allocation }
	alwaysSynced     struct{ cache.SharedIndexInformer }
	addressesByNames struct {
		networkinglisters.IPAddressLister
		a *allocation
	}
)

// IPAddresses is the part of the client that is used.
func (c addressClient) IPAddresses() networkingclient.IPAddressInterface {
	return addressWriter{a: c.a}
}

// Create allocates an address.
func (w addressWriter) Create(_ context.Context, address *networkingv1.IPAddress, _ metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	a, t := w.a, w.a.supply.addresses
	key := t.KeyOf("", address.Name)
	if a.has(a.addresses, key) {
		return nil, apierrors.NewAlreadyExists(t.GroupResource, address.Name)
	}
	if resources.InDryRun(a.ctx) {
		// Only the address is of use. It is not validated, because its Service may have no name, or an invalid one, which the Service's validation
		// reports with all other errors.
		a.taken = append(a.taken, resources.Write{Op: resources.Create, Key: key})
		return address, nil
	}
	hub, err := t.ToHub(address)
	if err != nil {
		return nil, err
	}
	manager, err := a.supply.own()
	if err != nil {
		return nil, err
	}
	hub = manager.Create(hub, resources.ServerManagerName)
	writes, err := resources.CreateShare(a.ctx, t, hub)
	if err != nil {
		return nil, err
	}
	a.taken = append(a.taken, writes...)
	return address, nil
}

// Informer returns an informer that is always synced.
func (i addressInformer) Informer() cache.SharedIndexInformer { return alwaysSynced{} }

// Lister returns the addresses of the snapshot.
func (i addressInformer) Lister() networkinglisters.IPAddressLister { return addressesByNames{a: i.a} }

// HasSynced is true: a snapshot is complete.
func (alwaysSynced) HasSynced() bool { return true }

// Get reports by its error whether an address is allocated.
func (l addressesByNames) Get(name string) (*networkingv1.IPAddress, error) {
	t := l.a.supply.addresses
	if l.a.has(l.a.addresses, t.KeyOf("", name)) {
		return nil, nil
	}
	return nil, apierrors.NewNotFound(t.GroupResource, name)
}

// List returns none: the allocator would count for its gauges at each address, and ServiceMetrics has these here.
func (l addressesByNames) List(labels.Selector) ([]*networkingv1.IPAddress, error) { return nil, nil }

var _ networkinginformers.IPAddressInformer = addressInformer{}
