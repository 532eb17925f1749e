package builtin

import (
	"context"
	"encoding/json"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"github.com/rowlock/rowlock/resources"
)

// ServiceMetrics are the gauges of the allocated addresses and node ports of Services, under kube-apiserver's names. A scrape reads them
// from memory; upstream's allocators count the allocations.
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

// scrapeTime is how long a scrape waits for data outside memory: rows that could not be decrypted so far.
const scrapeTime = time.Second

// Collect implements prometheus.Collector. It omits what cannot be read in time.
func (m ServiceMetrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	gauge := func(d *prometheus.Desc, n int, of ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), of...)
	}
	read := func(resource string) (resources.Snapshot, bool) {
		s, err := m.Reader.Snapshot(ctx, resource, resources.At{Match: resources.Any})
		return s, err == nil
	}
	if ports, ok := read(NodePortRows); ok {
		in, used := m.Network.withDefaults().NodePorts, 0
		ports.Ascend("", "", func(o *resources.Object) bool {
			if port, err := strconv.Atoi(o.Name); err == nil && in.Contains(port) { // the range may have been another one
				used++
			}
			return true
		})
		gauge(allocatedPorts, used)
		gauge(availablePorts, in.Size-used)
	}
	addresses, ok := read("ipaddresses.networking.k8s.io")
	cidrs, known := read("servicecidrs.networking.k8s.io")
	if !ok || !known {
		return
	}
	taken, seen := takenAddresses(addresses), map[string]bool{}
	cidrs.Ascend("", "", func(o *resources.Object) bool {
		var c networkingv1.ServiceCIDR
		if json.Unmarshal(o.Data, &c) != nil {
			return true
		}
		for _, text := range c.Spec.CIDRs {
			prefix, size, err := sizeOfRange(text)
			if err != nil || seen[text] { // two objects may name one range
				continue
			}
			seen[text] = true
			used := 0
			for _, address := range taken {
				if prefix.Contains(address) {
					used++
				}
			}
			gauge(allocatedIPs, used, text)
			gauge(availableIPs, max(size-used, 0), text)
		}
		return true
	})
}

// takenAddresses are the addresses allocated for Services, by the rule of upstream's allocator.
func takenAddresses(all resources.Snapshot) (taken []netip.Addr) {
	all.Ascend("", "", func(o *resources.Object) bool {
		address, err := netip.ParseAddr(o.Name)
		family := corev1.IPv4Protocol
		if address.Is6() {
			family = corev1.IPv6Protocol
		}
		if err == nil && o.Labels[networkingv1.LabelManagedBy] == ipallocator.ControllerName && o.Labels[networkingv1.LabelIPAddressFamily] == string(family) {
			taken = append(taken, address)
		}
		return true
	})
	return taken
}

// sizeOfRange is the number of addresses that upstream's allocator has in a range.
func sizeOfRange(cidr string) (netip.Prefix, int, error) {
	n, prefix, err := parseRange(cidr)
	if err != nil {
		return prefix, 0, err
	}
	r, err := ipallocator.NewIPAllocator(n, nil, addressInformer{}) // finds no allocated address
	if err != nil {
		return prefix, 0, err
	}
	return prefix, r.Free(), nil
}
