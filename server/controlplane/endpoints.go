package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// endpoint is the address and port of a server.
type endpoint struct {
	Address net.IP `json:"address"`
	Port    int    `json:"port"`
}

// endpointSource returns the endpoints for the Service "kubernetes". exists says whether the object with the endpoints
// exists. When no endpoints are returned, the object stays as it is. The function is called after that object was read:
// of two servers that disagree, the one that called it last prevails.
type endpointSource func(exists bool) ([]endpoint, error)

// of returns the endpoints. Without any, an existing object stays as it is, and a missing one is not created (errNotToBe).
func (s endpointSource) of(exists bool) ([]endpoint, error) {
	all, err := s(exists)
	if err == nil && len(all) == 0 && !exists {
		err = errNotToBe
	}
	return all, err
}

// endpointGroup holds the endpoints of one EndpointSlice, or of one subset of Endpoints.
type endpointGroup struct {
	family    discovery.AddressType
	port      int32
	addresses []string
}

// grouped groups endpoints by family and port, in an order that does not depend on the order of the endpoints.
func grouped(all []endpoint) []*endpointGroup {
	var groups []*endpointGroup
	for _, e := range all {
		family := discovery.AddressTypeIPv4
		if netutils.IsIPv6(e.Address) {
			family = discovery.AddressTypeIPv6
		}
		i := slices.IndexFunc(groups, func(g *endpointGroup) bool { return g.family == family && g.port == int32(e.Port) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &endpointGroup{family: family, port: int32(e.Port)})
		}
		if a := e.Address.String(); !slices.Contains(groups[i].addresses, a) {
			groups[i].addresses = append(groups[i].addresses, a)
		}
	}
	slices.SortFunc(groups, func(a, b *endpointGroup) int {
		if a.family != b.family {
			if a.family == discovery.AddressTypeIPv4 {
				return -1
			}
			return 1
		}
		return int(a.port - b.port)
	})
	for _, g := range groups {
		slices.Sort(g.addresses)
	}
	return groups
}

// ensureEndpoints writes the endpoints of the Service as Endpoints and as an EndpointSlice, both with the name of the
// Service. Where the servers have several families or ports, there is a further EndpointSlice for each pair of family
// and port.
func (p *Plane) ensureEndpoints(ctx context.Context, source endpointSource) error {
	var refused refusals // when one form is refused, the other is written nevertheless
	if t, ok := p.Registry.Catalog().Type("endpoints"); ok {
		err := p.ensure(ctx, t, metav1.NamespaceDefault, serviceName, func(exists bool, obj runtime.Object) error {
			all, err := source.of(exists)
			if err != nil || len(all) == 0 {
				return err
			}
			fillEndpoints(obj.(*core.Endpoints), grouped(all))
			return nil
		})
		if errors.Is(err, errNotToBe) {
			err = nil
		}
		if err := refused.pass(err); err != nil {
			return err
		}
	}
	if t, ok := p.Registry.Catalog().Type(slicesResource); ok {
		if err := refused.pass(p.ensureEndpointSlices(ctx, t, source)); err != nil {
			return err
		}
	}
	return refused.err()
}

// ensureEndpointSlices writes the EndpointSlices of the Service.
func (p *Plane) ensureEndpointSlices(ctx context.Context, t *resources.Type, source endpointSource) error {
	last, err := p.lastSlice(ctx)
	if err != nil {
		return err
	}
	group := 0
	for number, more := 0, true; more || number <= last; number++ {
		var others bool
		if more, others, err = p.ensureEndpointSlice(ctx, t, number, group, source); err != nil {
			return err
		}
		if !others {
			group++
		}
	}
	return nil
}

// sliceManager marks the further EndpointSlices as the server's own: users may give theirs such a name, too.
const sliceManager = "rowlock"

func ownSlice(l map[string]string) bool { return l[discoveryv1.LabelManagedBy] == sliceManager }

// mostSlices is beyond all numbers of EndpointSlices: one that somebody else gives the server's label may have any.
const mostSlices = 1000

// sliceNumber returns the number in the name of a further EndpointSlice; false when it is another name.
func sliceNumber(name string) (number int, ok bool) {
	digits, ok := strings.CutPrefix(name, serviceName+"-")
	number, err := strconv.Atoi(digits)
	return number, ok && err == nil && number < mostSlices
}

// lastSlice returns the highest number of the server's own EndpointSlices.
func (p *Plane) lastSlice(ctx context.Context) (last int, err error) {
	snapshot, err := p.Store.Snapshot(ctx, slicesResource, resources.At{Match: resources.Any, Namespace: metav1.NamespaceDefault})
	if err != nil {
		return 0, err
	}
	snapshot.Ascend(metav1.NamespaceDefault, "", func(o *resources.Object) bool {
		if number, ok := sliceNumber(o.Name); ok && ownSlice(o.Labels) {
			last = max(last, number)
		}
		return true
	})
	return last, nil
}

func fillEndpoints(e *core.Endpoints, groups []*endpointGroup) {
	metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelSkipMirror, "true")
	e.Subsets = nil
	for _, g := range groups {
		subset := core.EndpointSubset{Ports: []core.EndpointPort{{Name: "https", Protocol: core.ProtocolTCP, Port: g.port}}}
		for _, a := range g.addresses {
			subset.Addresses = append(subset.Addresses, core.EndpointAddress{IP: a})
		}
		e.Subsets = append(e.Subsets, subset)
	}
}

// fillSlice writes a group into an EndpointSlice, and replaces its labels. As in kube-apiserver, which replaces a wrong slice as a whole,
// a slice that changes also loses its annotations.
func fillSlice(e *discovery.EndpointSlice, g *endpointGroup, labels map[string]string) {
	was := e.DeepCopy()
	e.AddressType = g.family
	e.Labels = labels
	e.Endpoints = nil
	for _, a := range g.addresses {
		e.Endpoints = append(e.Endpoints, discovery.Endpoint{Addresses: []string{a},
			Conditions: discovery.EndpointConditions{Ready: ptr.To(true)}})
	}
	e.Ports = []discovery.EndpointPort{{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: &g.port}}
	if !apiequality.Semantic.DeepEqual(was, e) {
		e.Annotations = nil
	}
}

// ensureEndpointSlice writes one group into the EndpointSlice with a number, or removes that slice when the group does
// not exist. more: there may be further slices. others: a user owns this slice, and it is left alone.
func (p *Plane) ensureEndpointSlice(ctx context.Context, t *resources.Type, number, group int, source endpointSource) (more, others bool, err error) {
	name := serviceName
	if number > 0 {
		name = fmt.Sprintf("%s-%d", serviceName, number)
	}
	var uid types.UID
	fill := func(exists bool, obj runtime.Object) error {
		more, others = false, false // this may be called again, for what has become of the slice
		all, err := source.of(exists)
		if err != nil || len(all) == 0 {
			return err
		}
		groups := grouped(all)
		e := obj.(*discovery.EndpointSlice)
		uid = e.UID
		if others = exists && number > 0 && !ownSlice(e.Labels); others {
			more = true
			return nil
		}
		if group >= len(groups) || exists && e.AddressType != groups[group].family {
			more = exists
			return errNotToBe
		}
		more = true
		labels := map[string]string{discoveryv1.LabelServiceName: serviceName}
		if number > 0 {
			labels[discoveryv1.LabelManagedBy] = sliceManager
		}
		fillSlice(e, groups[group], labels)
		return nil
	}
	for {
		err := p.ensure(ctx, t, metav1.NamespaceDefault, name, fill)
		if !errors.Is(err, errNotToBe) || !more {
			if errors.Is(err, errNotToBe) {
				err = nil
			}
			return more, others, err
		}
		key := t.KeyOf(metav1.NamespaceDefault, name)
		d, err := p.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", t, key), &resources.DeleteRequest{Type: t, Name: name})
		switch unlessGone := resources.UnlessGone(ctx, p.Store, key, uid, 0, err); { // another server may have been faster
		case unlessGone != nil:
			return false, false, unlessGone
		case err == nil && !d.Gone:
			return true, true, nil // finalizers keep it, and its end will be an event
		}
	}
}

// errNotToBe says that there are no endpoints for an object, or that the address family of an EndpointSlice, which is immutable, is the wrong one.
var errNotToBe = errors.New("the endpoints have no such object")
