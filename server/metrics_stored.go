package server

import "github.com/prometheus/client_golang/prometheus"

// storedObjects are the gauges of how much there is of each type, under kube-apiserver's names. They are read when somebody asks.
type storedObjects struct{ *Server }

var (
	resourceLabels  = []string{"group", "resource"}
	resourceObjects = prometheus.NewDesc("apiserver_resource_objects", "Number of stored objects by resource.", resourceLabels, nil)
	resourceBytes   = prometheus.NewDesc("apiserver_resource_size_estimate_bytes", "Estimated size of stored objects by resource, by the size of some of them.",
		resourceLabels, nil)
)

// Describe implements prometheus.Collector.
func (s storedObjects) Describe(to chan<- *prometheus.Desc) {
	to <- resourceObjects
	to <- resourceBytes
}

// Collect implements prometheus.Collector.
func (s storedObjects) Collect(to chan<- prometheus.Metric) {
	for _, g := range s.Registry.Catalog().Groups() {
		for t := range g.Types {
			stats, err := s.statsOf(t)
			if err != nil || t.GroupResource.Group != g.Name {
				continue // the store is closed; or the objects are those of another group, as Events are
			}
			of := []string{g.Name, t.GroupResource.Resource}
			to <- prometheus.MustNewConstMetric(resourceObjects, prometheus.GaugeValue, float64(stats.ObjectCount), of...)
			to <- prometheus.MustNewConstMetric(resourceBytes, prometheus.GaugeValue, float64(stats.ObjectCount*stats.EstimatedAverageObjectSizeBytes), of...)
		}
	}
}
