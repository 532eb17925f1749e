package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	metricsfeatures "k8s.io/component-base/metrics/features"
)

// Histogram returns the options of a histogram that kube-apiserver shows in classic and in native buckets while the gate NativeHistograms is on
// (KEP-5808). The resolution and the number of buckets are those of an internal package of upstream.
//
// kube-apiserver's histograms that its packages register before the gates are set, of admission and of clients, are classic only.
func Histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	prepareGates()
	o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	if utilfeature.DefaultFeatureGate.Enabled(metricsfeatures.NativeHistograms) {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = 1.1, 160
	}
	return o
}

// NewHistogramVec returns such histograms, by labels.
func NewHistogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(Histogram(name, help, buckets), labels)
}
