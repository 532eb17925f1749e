package builtin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"

	"github.com/rowlock/rowlock/resources"
)

// NodePortRows has the allocated node ports, a row for each with the port as its name. No API serves it. Since names
// are unique, a port belongs to one Service, whatever the protocol, on any number of servers.
const NodePortRows = "nodeports.rowlock.internal"

// nodePort is such a row.
type nodePort struct {
	Kind       string       `json:"kind"`
	APIVersion string       `json:"apiVersion"`
	Metadata   nodePortMeta `json:"metadata"`
	Service    portOwner    `json:"service"`
}

type nodePortMeta struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

type portOwner struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// NodePortRow returns the row that allocates a port to a Service.
func NodePortRow(port int, namespace, service string) (resources.Key, resources.Draft, error) {
	key := portKey(port)
	data, err := json.Marshal(nodePort{Kind: "NodePort", APIVersion: "rowlock.internal/v1",
		Metadata: nodePortMeta{Name: key.Name, ResourceVersion: resources.PlaceholderRevision},
		Service:  portOwner{namespace, service}})
	d, _ := resources.DraftOf(data)
	return key, d, err
}

// NodePortOf returns the port of such a row, and the namespace and the name of the Service that it is allocated to.
func NodePortOf(row *resources.Object) (port int, namespace, service string, err error) {
	var is nodePort
	if err = json.Unmarshal(row.Data, &is); err == nil {
		port, err = strconv.Atoi(row.Name)
	}
	if err != nil {
		err = fmt.Errorf("decode %s: %w", row.Key, err)
	}
	return port, is.Service.Namespace, is.Service.Name, err
}

// NodePortsOf returns the node ports of a stored Service, each once.
func NodePortsOf(service *resources.Object) (ports []int) {
	add := func(port gjson.Result) bool {
		if n := int(port.Int()); n != 0 && !slices.Contains(ports, n) {
			ports = append(ports, n)
		}
		return true
	}
	spec := gjson.GetBytes(service.Data, "spec")
	spec.Get("ports").ForEach(func(_, port gjson.Result) bool { return add(port.Get("nodePort")) })
	add(spec.Get("healthCheckNodePort"))
	return ports
}

// portRange is upstream's allocator in memory, which decides the next port.
type portRange = portallocator.PortAllocator

// portAllocator is upstream's interface to the ports of the present allocation.
type portAllocator struct{ supply *serviceAllocator }

func portKey(port int) resources.Key {
	return resources.Key{Resource: NodePortRows, Name: strconv.Itoa(port)}
}

// ports returns the range with the allocated ports marked.
func (p *portAllocator) ports() (*portRange, error) {
	a := p.supply.current
	if a.drawn != nil {
		return a.drawn, nil
	}
	drawn, err := portallocator.NewInMemory(p.supply.network.NodePorts)
	if err != nil {
		return nil, err
	}
	a.ports.Ascend("", "", func(o *resources.Object) bool {
		if port, err := strconv.Atoi(o.Name); err == nil && p.supply.network.NodePorts.Contains(port) {
			_ = drawn.Allocate(port) // cannot fail: names are unique
		}
		return true
	})
	if !resources.InDryRun(a.ctx) {
		drawn.EnableMetrics() // allocations from now on are counted
	}
	a.drawn = drawn
	return drawn, nil
}

// Allocate allocates a port.
func (p *portAllocator) Allocate(port int) error {
	drawn, err := p.ports()
	if err != nil {
		return err
	}
	if err := drawn.Allocate(port); err != nil {
		return err
	}
	return p.take(port)
}

// AllocateNext allocates a free port.
func (p *portAllocator) AllocateNext() (int, error) {
	drawn, err := p.ports()
	if err != nil {
		return 0, err
	}
	port, err := drawn.AllocateNext()
	if err != nil {
		return 0, err
	}
	return port, p.take(port)
}

func (p *portAllocator) take(port int) error {
	a := p.supply.current
	key, d, err := NodePortRow(port, a.service.Namespace, a.service.Name)
	if err != nil {
		return err
	}
	a.taken = append(a.taken, resources.Write{Op: resources.Create, Key: key, Draft: d})
	return nil
}

// Release frees a port.
func (p *portAllocator) Release(port int) error {
	a := p.supply.current
	a.free(a.ports, portKey(port), func(o *resources.Object) (*resources.Write, error) {
		_, namespace, name, err := NodePortOf(o)
		if err != nil || namespace != a.service.Namespace || name != a.service.Name {
			return nil, err
		}
		return &resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision}, nil
	})
	return nil
}

// Has reports whether a port is allocated.
func (p *portAllocator) Has(port int) bool {
	a := p.supply.current
	return a.has(a.ports, portKey(port))
}

// ForEach, Destroy and EnableMetrics are not called by upstream's rules.
func (p *portAllocator) ForEach(func(int)) {}

// Destroy does nothing.
func (p *portAllocator) Destroy() {}

// EnableMetrics does nothing.
func (p *portAllocator) EnableMetrics() {}
