package upstream

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/testing/protocmp"
	base "k8s.io/component-base/metrics"
)

// TestHistogramsAreUpstreams: histograms here have the buckets of upstream's, with the gate and without it, however many are in use.
func TestHistogramsAreUpstreams(t *testing.T) {
	t.Cleanup(func() {
		if err := SetFeatureGates(map[string]bool{"NativeHistograms": true}); err != nil {
			t.Error(err)
		}
	})
	for _, on := range []bool{true, false} {
		if err := SetFeatureGates(map[string]bool{"NativeHistograms": on}); err != nil {
			t.Fatal(err)
		}
		theirs := base.NewHistogram(&base.HistogramOpts{Name: "h", Buckets: []float64{1, 10}})
		registry := base.NewKubeRegistry()
		registry.MustRegister(theirs)
		ours := prometheus.NewHistogram(Histogram("h", "", []float64{1, 10}))
		for exponent := range 200 {
			value := math.Pow(1.07, float64(exponent))
			theirs.Observe(value)
			ours.Observe(value)
			if err := sameHistogram(registry, ours); err != nil {
				t.Fatalf("native is %v, after %d values: %v", on, exponent+1, err)
			}
		}
	}
}

// BenchmarkHistogram measures one Observe in each form, of values that a request takes.
func BenchmarkHistogram(b *testing.B) {
	for _, form := range []struct {
		name    string
		options func(name, help string, buckets []float64) prometheus.HistogramOpts
	}{
		{"classic", func(name, help string, buckets []float64) prometheus.HistogramOpts {
			return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
		}},
		{"native", Histogram},
	} {
		b.Run(form.name, func(b *testing.B) {
			h := prometheus.NewHistogram(form.options("h", "", prometheus.ExponentialBuckets(0.001, 2, 15)))
			i := 0
			for b.Loop() {
				i++
				h.Observe(float64(i&1023+1) * 1e-5)
			}
		})
		b.Run(form.name+"/series", func(b *testing.B) { // the memory of a series that has had 100 values over three orders of magnitude
			b.ReportAllocs()
			for b.Loop() {
				h := prometheus.NewHistogram(form.options("h", "", prometheus.ExponentialBuckets(0.001, 2, 15)))
				for i := range 100 {
					h.Observe(1e-4 * math.Pow(1000, float64(i)/100))
				}
			}
		})
	}
}

// sameHistogram compares the buckets of the only metric of a registry with those of a histogram.
func sameHistogram(theirs base.Gatherer, ours prometheus.Histogram) error {
	families, err := theirs.Gather()
	if err != nil {
		return err
	}
	var m dto.Metric
	if err := ours.Write(&m); err != nil {
		return err
	}
	of := families[0].Metric[0].Histogram
	of.CreatedTimestamp, m.Histogram.CreatedTimestamp = nil, nil
	if diff := cmp.Diff(of, m.Histogram, protocmp.Transform()); diff != "" {
		return fmt.Errorf("%s", diff)
	}
	return nil
}
