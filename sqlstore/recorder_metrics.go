package sqlstore

import "github.com/prometheus/client_golang/prometheus"

// recorderMetrics are the Prometheus metrics of the object history.
type recorderMetrics struct {
	recorded, gaps, incomplete prometheus.Counter
}

func newRecorderMetrics() *recorderMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &recorderMetrics{
		recorded: counter("rowlock_object_history_recorded_total", "Writes that this server put into the object history."),
		gaps: counter("rowlock_object_history_gaps_total",
			"How often changes were pruned from the log before they were in the object history, or the counter of revisions jumped."),
		incomplete: counter("rowlock_object_history_incomplete_total",
			"Writes in the object history without their object, which could not be decrypted or encrypted, or was too large."),
	}
}

// collectors returns the metrics of an object history, if there is one.
func (r *recorder) collectors() []prometheus.Collector {
	if !r.on() {
		return nil
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	return []prometheus.Collector{r.metrics.recorded, r.metrics.gaps, r.metrics.incomplete,
		gauge("rowlock_object_history_revision", "Revision that the object history has come to, as far as this server knows.",
			func() float64 { return float64(r.revision.Load()) }),
		gauge("rowlock_object_history_bytes", "Size of the object history, as far as this server knows.",
			func() float64 { return float64(r.bytes.Load()) }),
	}
}
