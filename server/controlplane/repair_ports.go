package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/upstream"
)

// portRepairer is the reporting controller of the Events about node ports: the name of kube-apiserver's controller.
const portRepairer = "portallocator-repair-controller"

// portRepair keeps the rows of allocated node ports consistent with the Services. A Service and its rows are written
// together, but an import writes Services alone, and some of them may have the same port. Its checks and its Events are
// those of kube-apiserver's repair loop for ports.
type portRepair struct {
	plane    *Plane
	services *resources.Type
	rows     *resources.Rows
	ports    utilnet.PortRange
	report   *reporter
	// contested: a port may be without a row when a Service changes next. It is that of several Services, of which the one with the row may
	// give it up, or a Service changed while its port was to get a row.
	contested bool
}

// keepPorts returns nil where Services are not served, or the rows are not known.
func (p *Plane) keepPorts(n Network) *chore {
	r := p.newPortRepair(n)
	if r == nil {
		return nil
	}
	return &chore{name: "node ports", follow: []resources.Key{{Resource: servicesResource}}, do: r.report.after(r.do), sparing: true}
}

func (p *Plane) newPortRepair(n Network) *portRepair {
	services, ok := p.Registry.Catalog().Type(servicesResource)
	if !ok || n.Rows == nil {
		return nil
	}
	return &portRepair{plane: p, services: services, rows: n.Rows, ports: n.NodePorts, report: p.reporters[portRepairer]}
}

// do is check, and counts errors.
func (r *portRepair) do(ctx context.Context, events []*resources.Event) (time.Duration, error) {
	again, err := r.check(ctx, events)
	if err != nil {
		upstream.NodePortRepairsFailed.Inc()
	}
	return again, err
}

// check checks all ports, unless the events concern none. It looks at Services and rows of one revision, and makes each write on condition that
// what it saw has not changed. So no grace periods are needed, which kube-apiserver has.
func (r *portRepair) check(ctx context.Context, events []*resources.Event) (time.Duration, error) {
	if events != nil && !r.contested {
		return 0, nil
	}
	services, err := r.plane.Store.Snapshot(ctx, r.services.ResourceName(), resources.At{Match: resources.Any})
	if err != nil {
		return 0, err
	}
	rows, err := r.rows.Snapshot(ctx, builtin.NodePortRows, resources.At{Match: resources.Exact, Revision: services.Revision()})
	if err != nil {
		return 0, err
	}
	r.contested = false
	has := map[int][]*resources.Object{}
	services.Ascend("", "", func(o *resources.Object) bool {
		for _, port := range builtin.NodePortsOf(o) {
			has[port] = append(has[port], o)
		}
		return true
	})
	holders, wrong := r.holders(ctx, rows, has)
	if lost(ctx, wrong) {
		return 0, wrong
	}
	for _, port := range slices.Sorted(maps.Keys(has)) {
		err := r.repair(ctx, port, has[port], holders[port])
		if wrong = errors.Join(wrong, err); lost(ctx, err) {
			break
		}
	}
	return 0, wrong
}

// holders returns the Services that the rows name, by port, and removes the rows of ports that these Services do not have.
func (r *portRepair) holders(ctx context.Context, rows resources.Snapshot, has map[int][]*resources.Object) (map[int]resources.Key, error) {
	holders := map[int]resources.Key{}
	var wrong error
	rows.Ascend("", "", func(row *resources.Object) bool {
		port, namespace, name, err := builtin.NodePortOf(row)
		holder := r.services.KeyOf(namespace, name)
		if err == nil && !slices.ContainsFunc(has[port], func(o *resources.Object) bool { return o.Key == holder }) {
			r.plane.Logger.Warn("a node port appears to have leaked: cleaning up", "port", port)
			upstream.CountNodePortError("leak")
			if err = r.rows.Delete(ctx, row); err == nil {
				return true
			}
		}
		holders[port] = holder
		if changedMeanwhile(err) {
			r.contested = true
			return true
		}
		wrong = errors.Join(wrong, err)
		return !lost(ctx, err)
	})
	return holders, wrong
}

// repair creates the row of a port, and reports what users have to repair. services have the port; holder is the one that its row names.
func (r *portRepair) repair(ctx context.Context, port int, services []*resources.Object, holder resources.Key) error {
	for _, o := range services {
		switch {
		case !r.ports.Contains(port):
			upstream.CountNodePortError("outOfRange")
			r.report.warn(ctx, r.services, o, "PortOutOfRange", "PortAllocation",
				fmt.Sprintf("Port %d is not within the port range %s; please recreate service", port, r.ports))
		case holder == resources.Key{}:
			if err := r.allocate(ctx, o, port); err != nil {
				return err
			}
			holder = o.Key
		case o.Key != holder:
			r.contested = true
			upstream.CountNodePortError("duplicate")
			r.report.warn(ctx, r.services, o, "PortAlreadyAllocated", "PortAllocation",
				fmt.Sprintf("Port %d was assigned to multiple services; please recreate service", port))
		}
	}
	return nil
}

// allocate creates the row of a port, unless the Service has changed or another Service was given the port.
func (r *portRepair) allocate(ctx context.Context, service *resources.Object, port int) error {
	key, row, err := builtin.NodePortRow(port, service.Namespace, service.Name)
	if err != nil {
		return err
	}
	_, err = r.rows.CreateFor(ctx, service, key, row)
	if changedMeanwhile(err) {
		r.contested = true
		return nil
	}
	if err == nil {
		upstream.CountNodePortError("repair")
		r.report.warn(ctx, r.services, service, "PortNotAllocated", "PortAllocation", fmt.Sprintf("Port %d is not allocated; repairing", port))
	}
	return err
}

// changedMeanwhile tells whether a row was not written because another writer was faster.
func changedMeanwhile(err error) bool {
	var conflict *resources.ConflictError
	var changed *resources.ExpectationError
	return errors.Is(err, resources.ErrExists) || errors.Is(err, resources.ErrNotFound) || errors.As(err, &conflict) || errors.As(err, &changed)
}
