package upstream

import (
	"sync"

	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
)

// KeepWaitingRatios has apiserver_flowcontrol_read_vs_write_current_requests keep the limit of waiting requests that it had where there is
// none: upstream divides by it, and a sum to which 0/0 was added once is not a number for ever. There is none in the configuration that every
// server begins with, in which nobody waits. It comes before the first server has priority and fairness.
var KeepWaitingRatios = sync.OnceFunc(func() {
	for _, get := range []*func() metrics.RatioedGauge{&metrics.GetWaitingReadonlyConcurrency, &metrics.GetWaitingMutatingConcurrency} {
		theirs := *get
		*get = func() metrics.RatioedGauge { return limited{theirs()} }
	}
})

// limited is a gauge whose limit is never nothing.
type limited struct{ metrics.RatioedGauge }

func (l limited) SetDenominator(limit float64) {
	if limit > 0 {
		l.RatioedGauge.SetDenominator(limit)
	}
}
