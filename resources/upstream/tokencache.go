package upstream

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	base "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// TokenCacheMetrics are the metrics of upstream's caches of tokens, each with the label status.
type TokenCacheMetrics struct {
	Requests, Fetches *base.CounterVec
	Seconds           *base.HistogramVec
	Fetching          *base.GaugeVec
}

// TokenCache returns the metrics of upstream's caches of tokens, which another cache can use, too. Upstream's package does not export them, but its
// registry says which collectors it has already.
var TokenCache = sync.OnceValue(func() TokenCacheMetrics {
	cache.New(nil, false, 0, 0) // registers them
	const namespace, subsystem, level = "authentication", "token_cache", base.ALPHA
	status := []string{"status"}
	counter := func(name string) *base.CounterVec {
		return base.NewCounterVec(&base.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, StabilityLevel: level}, status)
	}
	return TokenCacheMetrics{Requests: registered(counter("request_total")), Fetches: registered(counter("fetch_total")),
		Seconds: registered(base.NewHistogramVec(&base.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: "request_duration_seconds",
			StabilityLevel: level}, status)),
		Fetching: registered(base.NewGaugeVec(&base.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: "active_fetch_count", StabilityLevel: level}, status))}
})

// registered returns the collector that is registered in the place of c; c itself, if there is none.
func registered[T base.Registerable](c T) T {
	var already prometheus.AlreadyRegisteredError
	if errors.As(legacyregistry.Register(c), &already) {
		if there, ok := already.ExistingCollector.(T); ok {
			return there
		}
	}
	return c
}
