package aggregate

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

// The metrics have kube-aggregator's names.
var unavailableGauge = prometheus.NewDesc("aggregator_unavailable_apiservice",
	"Gauge of APIServices which are marked as unavailable broken down by APIService name.", []string{"name"}, nil)

func newUnavailableCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "aggregator_unavailable_apiservice_total",
		Help: "Counter of APIServices which are marked as unavailable broken down by APIService name and reason."}, []string{"name", "reason"})
}

// CountUnavailable counts that an available APIService was marked as unavailable.
func (a *Aggregator) CountUnavailable(name, reason string) {
	a.unavailable.WithLabelValues(name, reason).Inc()
}

// ResetMetrics drops what CountUnavailable has counted.
func (a *Aggregator) ResetMetrics() { a.unavailable.Reset() }

// Describe implements prometheus.Collector.
func (a *Aggregator) Describe(to chan<- *prometheus.Desc) {
	to <- unavailableGauge
	a.unavailable.Describe(to)
}

// Collect implements prometheus.Collector. It reads the APIServices from the store, so nothing is kept for metrics.
func (a *Aggregator) Collect(to chan<- prometheus.Metric) {
	a.unavailable.Collect(to)
	all, err := a.Store.Snapshot(context.Background(), apiServicesResource, resources.At{Match: resources.Any})
	if err != nil {
		return // the store is closed
	}
	all.Ascend("", "", func(o *resources.Object) bool {
		unavailable := 1.0
		if gjson.GetBytes(o.Data, `status.conditions.#(type=="Available").status`).Str == "True" {
			unavailable = 0
		}
		to <- prometheus.MustNewConstMetric(unavailableGauge, prometheus.GaugeValue, unavailable, o.Name)
		return true
	})
}
