package custom

import "github.com/prometheus/client_golang/prometheus"

var (
	compiledGauge = prometheus.NewDesc("rowlock_custom_resource_compiled",
		"What is kept that was compiled of schemas of custom resources, by kind (docs/operations.md).", []string{"kind"}, nil)
	compiledBytesGauge = prometheus.NewDesc("rowlock_custom_resource_compiled_bytes",
		"How many bytes that takes, by an estimate.", []string{"kind"}, nil)
	compilationsCounter = prometheus.NewDesc("rowlock_custom_resource_compilations_total",
		"How often something was compiled of a schema of custom resources, by kind.", []string{"kind"}, nil)
)

// usage is the number and the size of the entries of a kind in the cache.
type usage struct {
	entries, bytes, compilations int64
}

// kinds are the kinds of cache entries, as metrics name them.
var kinds = [...]string{"schema", "plan", "validator", "cel-closures", "cel-programs", "schema-sum", "managed-fields"}

// kindOf is the index of the kind of a key.
func kindOf(key any) int {
	switch key.(type) {
	case schemaKey:
		return 0
	case planKey:
		return 1
	case rulesKey:
		return 2
	case closuresKey:
		return 3
	case expressionsKey, restKey:
		return 4
	case sumKey:
		return 5
	}
	return 6 // the keys of resources/fieldmanager among them
}

// Describe implements prometheus.Collector.
func (d *Definitions) Describe(to chan<- *prometheus.Desc) {
	to <- compiledGauge
	to <- compiledBytesGauge
	to <- compilationsCounter
}

// Collect implements prometheus.Collector.
func (d *Definitions) Collect(to chan<- prometheus.Metric) {
	for i, u := range d.compiled.usages() {
		to <- prometheus.MustNewConstMetric(compiledGauge, prometheus.GaugeValue, float64(u.entries), kinds[i])
		to <- prometheus.MustNewConstMetric(compiledBytesGauge, prometheus.GaugeValue, float64(u.bytes), kinds[i])
		to <- prometheus.MustNewConstMetric(compilationsCounter, prometheus.CounterValue, float64(u.compilations), kinds[i])
	}
}
