package upstream

import (
	"sync"

	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
)

// KeepWaitingRatios makes apiserver_flowcontrol_read_vs_write_current_requests keep its last limit of waiting requests when there is none:
// upstream divides by the limit, and once 0/0 is added to a sum it stays NaN. The initial configuration of every server has no limit, since
// nothing waits in it. It comes before the first server has priority and fairness.
var KeepWaitingRatios = sync.OnceFunc(func() {
	for _, get := range []*func() metrics.RatioedGauge{&metrics.GetWaitingReadonlyConcurrency, &metrics.GetWaitingMutatingConcurrency} {
		theirs := *get
		*get = func() metrics.RatioedGauge { return limited{theirs()} }
	}
})

// limited is a gauge whose limit is never zero.
type limited struct{ metrics.RatioedGauge }

func (l limited) SetDenominator(limit float64) {
	if limit > 0 {
		l.RatioedGauge.SetDenominator(limit)
	}
}
