package upstream_test

import (
	"math"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Where no request may wait, the ratio of waiting requests is a number.
func TestWaitingRatios(t *testing.T) {
	metrics.Register()
	for range 2 {
		upstream.KeepWaitingRatios()
	}
	for _, gauge := range []metrics.RatioedGauge{metrics.GetWaitingReadonlyConcurrency(), metrics.GetWaitingMutatingConcurrency()} {
		gauge.SetDenominator(0)
		gauge.Set(0)
		gauge.SetDenominator(4)
		gauge.Set(2)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		if !strings.HasSuffix(f.GetName(), "read_vs_write_current_requests") {
			continue
		}
		for _, m := range f.GetMetric() {
			found++
			if sum := m.GetHistogram().GetSampleSum(); math.IsNaN(sum) {
				t.Errorf("the sum of %v is %v", m.GetLabel(), sum)
			}
		}
	}
	if found != 2 {
		t.Errorf("there are %d series", found)
	}
}
