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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/discovery"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
)

// endpoint is where a server is reached.
type endpoint struct {
	Address net.IP `json:"address"`
	Port    int    `json:"port"`
}

// endpointSource says which endpoints the Service "kubernetes" is to have, given whether there is an object that says so
// already; none: it stays as it is. It is asked after that object was read, so that of two servers that disagree the one
// that asked last prevails.
type endpointSource func(exists bool) ([]endpoint, error)

// endpointGroup are the endpoints that go into one EndpointSlice, or one subset of Endpoints.
type endpointGroup struct {
	family    discovery.AddressType
	port      int32
	addresses []string
}

// grouped puts together what has one family and one port, in an order that does not depend on that of the endpoints.
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

// ensureEndpoints makes the endpoints of the Service, in both forms. Both have the same name as the Service; where not
// all servers have one family and one port, there are further EndpointSlices, of which each has only one of either.
func (p *Plane) ensureEndpoints(ctx context.Context, source endpointSource) error {
	var refused refusals // of one form: the other is made all the same
	if t, ok := p.Registry.Catalog().Type("endpoints"); ok {
		err := p.ensure(ctx, t, metav1.NamespaceDefault, serviceName, func(exists bool, obj runtime.Object) error {
			all, err := source(exists)
			if err != nil || len(all) == 0 {
				return err
			}
			fillEndpoints(obj.(*core.Endpoints), grouped(all))
			return nil
		})
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

// ensureEndpointSlices makes the EndpointSlices of the Service.
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

// sliceManager marks the EndpointSlices beside the first as the server's own: users may call theirs so, too.
const sliceManager = "rowlock"

func ownSlice(l map[string]string) bool { return l[discoveryv1.LabelManagedBy] == sliceManager }

// sliceNumber is that of an EndpointSlice beside the first; false when the name is another.
func sliceNumber(name string) (number int, ok bool) {
	digits, ok := strings.CutPrefix(name, serviceName+"-")
	number, err := strconv.Atoi(digits)
	return number, ok && err == nil
}

// lastSlice is the highest number of an EndpointSlice that is the server's own.
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

func fillSlice(e *discovery.EndpointSlice, g *endpointGroup) {
	e.AddressType = g.family
	metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelServiceName, serviceName)
	e.Endpoints = nil
	for _, a := range g.addresses {
		e.Endpoints = append(e.Endpoints, discovery.Endpoint{Addresses: []string{a},
			Conditions: discovery.EndpointConditions{Ready: ptr.To(true)}})
	}
	e.Ports = []discovery.EndpointPort{{Name: ptr.To("https"), Protocol: ptr.To(corev1.ProtocolTCP), Port: &g.port}}
}

// ensureEndpointSlice makes the EndpointSlice of a number that of a group, or removes it when there is no such group. It
// reports whether there may be more of them, and whether this one is a user's, and left alone.
func (p *Plane) ensureEndpointSlice(ctx context.Context, t *resources.Type, number, group int, source endpointSource) (more, others bool, err error) {
	name := serviceName
	if number > 0 {
		name = fmt.Sprintf("%s-%d", serviceName, number)
	}
	fill := func(exists bool, obj runtime.Object) error {
		all, err := source(exists)
		if err != nil || len(all) == 0 {
			return err
		}
		groups := grouped(all)
		e := obj.(*discovery.EndpointSlice)
		if others = exists && number > 0 && !ownSlice(e.Labels); others {
			more = true
			return nil
		}
		if group >= len(groups) || exists && e.AddressType != groups[group].family {
			more = exists
			return errNotToBe
		}
		more = true
		if number > 0 {
			metav1.SetMetaDataLabel(&e.ObjectMeta, discoveryv1.LabelManagedBy, sliceManager)
		}
		fillSlice(e, groups[group])
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
		_, err = p.Pipeline.Delete(resources.APIServer.Request(ctx, "delete", t, t.KeyOf(metav1.NamespaceDefault, name)),
			&resources.DeleteRequest{Type: t, Name: name})
		if err != nil && !errors.Is(err, resources.ErrNotFound) {
			return false, false, err
		}
	}
}

// errNotToBe: there is nothing that an EndpointSlice could have, or it is of another family, which cannot be changed.
var errNotToBe = errors.New("the EndpointSlice is not as it has to be")
