package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/servicecidr"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
	"github.com/rowlock/rowlock/resources/follow"
)

const (
	servicesResource  = "services"
	addressesResource = "ipaddresses.networking.k8s.io"
	rangesResource    = "servicecidrs.networking.k8s.io"
	// repairer is the reporting controller of the Events about repairs: the name of kube-apiserver's controller.
	repairer = "ipallocator-repair-controller"
)

// addressRepair keeps the addresses of Services consistent with the IPAddress objects. Both are written together, but
// users may change and delete IPAddresses. Its checks, its repairs and its Events are those of kube-apiserver's repair
// loop (KEP-1880).
type addressRepair struct {
	plane                       *Plane
	services, addresses, ranges *resources.Type
	report                      *reporter
	manager                     func() (*fieldmanager.Manager, error)
	now                         func() time.Time

	// waiting holds the IPAddresses to check again, and when.
	waiting map[string]time.Time
	// everything: a repair has made it necessary to check all objects.
	everything bool
	// until, when set, is when a run ends that had an error: a start does not wait for a webhook that takes long to refuse each repair.
	until time.Time
}

// keepAddresses returns nil where the types are not served.
func (p *Plane) keepAddresses() *chore {
	r := p.newAddressRepair()
	if r == nil {
		return nil
	}
	return &chore{name: "IPAddresses", do: r.report.after(r.do),
		follow: []resources.Key{{Resource: servicesResource}, {Resource: addressesResource}, {Resource: rangesResource}}}
}

func (p *Plane) newAddressRepair() *addressRepair {
	catalog := p.Registry.Catalog()
	services, ok1 := catalog.Type(servicesResource)
	addresses, ok2 := catalog.Type(addressesResource)
	ranges, ok3 := catalog.Type(rangesResource)
	if !ok1 || !ok2 || !ok3 {
		return nil
	}
	return &addressRepair{plane: p, services: services, addresses: addresses, ranges: ranges, now: time.Now, report: p.reporters[repairer],
		manager: sync.OnceValues(func() (*fieldmanager.Manager, error) { return addresses.ServerManager("") })}
}

// do checks the objects that the events concern, or all of them.
func (r *addressRepair) do(ctx context.Context, events []*resources.Event) (time.Duration, error) {
	services, addresses, err := r.concerned(ctx, events)
	if err != nil {
		return 0, err
	}
	// An object that cannot be repaired does not stop the repair of the rest: the error makes the next run check all of them again.
	var wrong error
	for _, key := range services {
		err := r.repairService(ctx, key)
		if wrong = errors.Join(wrong, err); r.stops(ctx, err) {
			return 0, wrong
		}
	}
	for _, name := range addresses {
		delete(r.waiting, name)
		err := r.repairAddress(ctx, name)
		if wrong = errors.Join(wrong, err); r.stops(ctx, err) {
			return 0, wrong
		}
	}
	if wrong != nil {
		return 0, wrong
	}
	if r.everything {
		return time.Nanosecond, nil
	}
	again := time.Duration(0)
	for _, when := range r.waiting {
		if left := max(when.Sub(r.now()), time.Nanosecond); again == 0 || left < again {
			again = left
		}
	}
	return again, nil
}

// stops tells whether a run ends with an error.
func (r *addressRepair) stops(ctx context.Context, err error) bool {
	return lost(ctx, err) || err != nil && !r.until.IsZero() && r.now().After(r.until)
}

// lost tells whether no write succeeds, so that the run has to stop: the store is closed or unavailable, or the audit takes no events.
func lost(ctx context.Context, err error) bool {
	return follow.Over(ctx, err) || errors.Is(err, resources.ErrUnavailable) || errors.Is(err, resources.ErrUnknownOutcome) ||
		errors.Is(err, resources.ErrNotRecorded)
}

// clusterIPs returns the addresses of a stored Service in the form of IPAddress names; none for a headless Service. A
// Service keeps its addresses in the form in which a client sent them.
func clusterIPs(o *resources.Object) (all []string) {
	gjson.GetBytes(o.Data, "spec.clusterIPs").ForEach(func(_, sent gjson.Result) bool {
		if ip := netutils.ParseIPSloppy(sent.Str); ip != nil {
			all = append(all, ip.String())
		}
		return true
	})
	return all
}

// owner returns the Service that a stored IPAddress refers to, or an empty key.
func (r *addressRepair) owner(o *resources.Object) resources.Key {
	ref := gjson.GetBytes(o.Data, "spec.parentRef")
	if ref.Get("group").Str != "" || ref.Get("resource").Str != servicesResource {
		return resources.Key{}
	}
	return r.services.KeyOf(ref.Get("namespace").Str, ref.Get("name").Str)
}

// get returns an object, nil when there is none. The watch cache may be behind, so an object that is missing or wrong
// is read again with MostRecent before it is repaired.
func (r *addressRepair) get(ctx context.Context, key resources.Key, match resources.Match) (*resources.Object, error) {
	o, err := r.plane.Store.Get(ctx, key, resources.At{Match: match})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, nil
	}
	return o, err
}

// repairService makes sure that each address of a Service has an IPAddress.
func (r *addressRepair) repairService(ctx context.Context, key resources.Key) error {
	if key.Name == "" {
		return nil // the IPAddress does not refer to a Service
	}
	o, err := r.get(ctx, key, resources.Any)
	if o == nil || err != nil {
		return err
	}
	for _, ip := range clusterIPs(o) {
		address, err := r.get(ctx, r.addresses.KeyOf("", ip), resources.Any)
		if err != nil {
			return err
		}
		inRange, err := r.inRange(ctx, ip, resources.Any)
		if err != nil {
			return err
		}
		if inRange && address != nil && r.owner(address) == key && labelled(address) {
			continue
		}
		if err := r.repairAddressOf(ctx, key, ip); err != nil {
			return err
		}
	}
	return nil
}

// labelled tells whether an IPAddress has the labels of one that was created for a Service.
func labelled(o *resources.Object) bool {
	return managed(o) && o.Labels[networkingv1.LabelIPAddressFamily] == string(familyOfAddress(o.Name))
}

func managed(o *resources.Object) bool {
	return o.Labels[networkingv1.LabelManagedBy] == ipallocator.ControllerName
}

func familyOfAddress(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// repairAddressOf creates or repairs the IPAddress for an address of a Service.
func (r *addressRepair) repairAddressOf(ctx context.Context, key resources.Key, ip string) error {
	service, err := r.get(ctx, key, resources.MostRecent)
	if service == nil || err != nil || !slices.Contains(clusterIPs(service), ip) {
		return err
	}
	family := familyOfAddress(ip)
	inRange, err := r.inRange(ctx, ip, resources.MostRecent)
	if err != nil {
		return err
	}
	if !inRange {
		r.report.warn(ctx, r.services, service, "ClusterIPOutOfRange", "ClusterIPAllocation",
			fmt.Sprintf("Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip))
		return nil
	}
	address, err := r.get(ctx, r.addresses.KeyOf("", ip), resources.MostRecent)
	if err != nil {
		return err
	}
	if address == nil {
		return r.allocateAgain(ctx, service, ip)
	}
	if address.Terminating() { // a repair follows when it is gone
		return nil
	}
	owner := r.owner(address)
	wrong := owner == resources.Key{}
	if !wrong && owner != key {
		other, err := r.get(ctx, owner, resources.MostRecent)
		if err != nil {
			return err
		}
		if wrong = other == nil; !wrong && slices.Contains(clusterIPs(other), ip) {
			r.report.warn(ctx, r.services, service, "ClusterIPAlreadyAllocated", "ClusterIPAllocation",
				fmt.Sprintf("Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip))
		}
	}
	if !wrong && labelled(address) {
		return nil
	}
	if d, err := r.remove(ctx, address); !d.Gone || err != nil {
		return err
	}
	if wrong {
		r.report.warn(ctx, r.services, service, "ClusterIPNotAllocated", "ClusterIPAllocation",
			fmt.Sprintf("the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", family, ip, key.Namespace, key.Name))
	}
	_, err = r.create(ctx, key, ip)
	return err
}

// allocateAgain creates a missing IPAddress.
func (r *addressRepair) allocateAgain(ctx context.Context, service *resources.Object, ip string) error {
	created, err := r.create(ctx, service.Key, ip)
	if created {
		r.report.warn(ctx, r.services, service, "ClusterIPNotAllocated", "ClusterIPAllocation",
			fmt.Sprintf("Cluster IP [%v]: %s is not allocated; repairing", familyOfAddress(ip), ip))
	}
	return err
}

func (r *addressRepair) inRange(ctx context.Context, ip string, match resources.Match) (found bool, err error) {
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return false, nil
	}
	ranges, err := r.plane.Store.Snapshot(ctx, r.ranges.ResourceName(), resources.At{Match: match})
	if err != nil {
		return false, err
	}
	ranges.Ascend("", "", func(o *resources.Object) bool {
		gjson.GetBytes(o.Data, "spec.cidrs").ForEach(func(_, cidr gjson.Result) bool {
			prefix, err := netip.ParsePrefix(cidr.Str)
			found = found || err == nil && servicecidr.PrefixContainsIP(prefix, address)
			return !found
		})
		return !found
	})
	return found, nil
}

// create creates the IPAddress of a Service; false when another writer created it.
func (r *addressRepair) create(ctx context.Context, service resources.Key, ip string) (bool, error) {
	manager, err := r.manager()
	if err != nil {
		return false, err
	}
	address := &networking.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOfAddress(ip)), networkingv1.LabelManagedBy: ipallocator.ControllerName}},
		Spec: networking.IPAddressSpec{ParentRef: &networking.ParentReference{Resource: servicesResource,
			Namespace: service.Namespace, Name: service.Name}},
	}
	c := resources.CreateRequest{Type: r.addresses, Object: manager.Create(address, resources.ServerManagerName)}
	_, err = r.plane.Pipeline.Create(resources.APIServer.Request(ctx, "create", r.addresses, r.addresses.KeyOf("", ip)), &c)
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// remove deletes an IPAddress, or marks it as deleted where finalizers keep it. It does neither when the IPAddress was
// changed or another writer removed it.
func (r *addressRepair) remove(ctx context.Context, o *resources.Object) (resources.Deleted, error) {
	uid := types.UID(gjson.GetBytes(o.Data, "metadata.uid").Str)
	version := resources.FormatRevision(o.Revision)
	del := resources.DeleteRequest{Type: r.addresses, Name: o.Name,
		Options: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}}
	d, err := r.plane.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", r.addresses, o.Key), &del)
	if err != nil {
		return resources.Deleted{}, resources.UnlessGone(ctx, r.plane.Store, o.Key, uid, o.Revision, err)
	}
	return d, nil
}
