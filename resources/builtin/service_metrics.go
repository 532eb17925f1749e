package builtin

import (
	"context"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources"
)

// ServiceMetrics are the gauges of how many addresses and node ports Services have taken, under kube-apiserver's names. They are read when
// somebody asks, from memory; how often some were taken is counted by upstream's allocators.
type ServiceMetrics struct {
	Reader  resources.Reader
	Network ServiceNetwork
}

var (
	cidrLabels     = []string{"cidr"}
	allocatedIPs   = prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips", "Gauge measuring the number of allocated IPs for Services", cidrLabels, nil)
	availableIPs   = prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips", "Gauge measuring the number of available IPs for Services", cidrLabels, nil)
	allocatedPorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports", "Gauge measuring the number of allocated NodePorts for Services", nil, nil)
	availablePorts = prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports", "Gauge measuring the number of available NodePorts for Services", nil, nil)
)

// Describe implements prometheus.Collector.
func (m ServiceMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{allocatedIPs, availableIPs, allocatedPorts, availablePorts} {
		to <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is left out.
func (m ServiceMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int, of ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), of...)
	}
	read := func(resource string) (resources.Snapshot, bool) {
		s, err := m.Reader.Snapshot(context.Background(), resource, resources.At{Match: resources.Any})
		return s, err == nil
	}
	if ports, ok := read(portsResource); ok {
		used := ports.Count("", "")
		gauge(allocatedPorts, used)
		gauge(availablePorts, m.Network.withDefaults().NodePorts.Size-used)
	}
	addresses, ok := read("ipaddresses.networking.k8s.io")
	cidrs, known := read("servicecidrs.networking.k8s.io")
	if !ok || !known {
		return
	}
	seen := map[string]bool{}
	cidrs.Ascend("", "", func(o *resources.Object) bool {
		var c networkingv1.ServiceCIDR
		if json.Unmarshal(o.Data, &c) != nil {
			return true
		}
		for _, text := range c.Spec.CIDRs {
			r, err := allocatorOf(text, addresses)
			if err != nil || seen[text] { // two objects may name one range
				continue
			}
			seen[text] = true
			gauge(allocatedIPs, r.Used(), text)
			gauge(availableIPs, r.Free(), text)
		}
		return true
	})
}

// allocatorOf is upstream's allocator of a range, to ask how many addresses are taken.
func allocatorOf(cidr string, taken resources.Snapshot) (*ipallocator.Allocator, error) {
	_, n, err := netutils.ParseCIDRSloppy(cidr)
	if err != nil {
		return nil, err
	}
	return ipallocator.NewIPAllocator(n, nil, takenInformer{taken: taken})
}

type (
	takenInformer struct {
		addressInformer
		taken resources.Snapshot
	}
	takenAddresses struct {
		networkinglisters.IPAddressLister
		taken resources.Snapshot
	}
)

// Lister returns the addresses of the snapshot.
func (i takenInformer) Lister() networkinglisters.IPAddressLister {
	return takenAddresses{taken: i.taken}
}

// List returns the addresses that are taken, with their names alone.
func (l takenAddresses) List(labels.Selector) (all []*networkingv1.IPAddress, err error) {
	l.taken.Ascend("", "", func(o *resources.Object) bool {
		a := &networkingv1.IPAddress{}
		a.Name = o.Name
		all = append(all, a)
		return true
	})
	return all, nil
}
