package server

import "github.com/prometheus/client_golang/prometheus"

// storedObjects are the gauges of the number and size of objects by type, under kube-apiserver's names. Each scrape reads them from memory.
type storedObjects struct{ *Server }

var (
	resourceLabels  = []string{"group", "resource"}
	resourceObjects = prometheus.NewDesc("apiserver_resource_objects", "Number of stored objects by resource.", resourceLabels, nil)
	resourceBytes   = prometheus.NewDesc("apiserver_resource_size_estimate_bytes", "Estimated size of stored objects by resource, by the size of some of them.",
		resourceLabels, nil)
	hiddenObjects = prometheus.NewDesc("apiserver_storage_objects", "(Deprecated since 1.34.0) Number of stored objects by resource; see apiserver_resource_objects.",
		[]string{"resource"}, nil)
)

// Describe implements prometheus.Collector.
func (s storedObjects) Describe(to chan<- *prometheus.Desc) {
	to <- resourceObjects
	to <- resourceBytes
	to <- hiddenObjects
}

// Collect implements prometheus.Collector.
func (s storedObjects) Collect(to chan<- prometheus.Metric) {
	for _, g := range s.Registry.Catalog().Groups() {
		for t := range g.Types {
			if t.GroupResource.Group != g.Name {
				continue // the objects belong to another group, as those of Events do
			}
			amount := s.Store.Amount(t.ResourceName())
			of := []string{g.Name, t.GroupResource.Resource}
			to <- prometheus.MustNewConstMetric(resourceObjects, prometheus.GaugeValue, float64(amount.Objects), of...)
			to <- prometheus.MustNewConstMetric(resourceBytes, prometheus.GaugeValue, float64(amount.Objects*amount.AverageBytes), of...)
			if s.MetricLimits.Hidden {
				to <- prometheus.MustNewConstMetric(hiddenObjects, prometheus.GaugeValue, float64(amount.Objects), t.GroupResource.String())
			}
		}
	}
}
