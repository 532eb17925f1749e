package authn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/resources/upstream"
)

// counts are kube-apiserver's authentication metrics, by its names. Those of the cache of ServiceAccount tokens are upstream's, which its caches of
// other tokens use, too.
type counts struct {
	lifetimes prometheus.Histogram
	cache     upstream.TokenCacheMetrics
}

func newCounts() *counts {
	const day = 24 * 3600
	lifetimes := prometheus.NewHistogram(upstream.Histogram("apiserver_client_certificate_expiration_seconds",
		"Distribution of the remaining lifetime on the certificate used to authenticate a request.",
		[]float64{0, 1800, 3600, 7200, 21600, 43200, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day}))
	return &counts{lifetimes: lifetimes, cache: upstream.TokenCache()}
}

// looked counts a lookup of a ServiceAccount token in the cache, whose status is hit or miss. Counters are looked up each time, because a reset of the
// metrics drops those that there are.
func (c *counts) looked(status string, took time.Duration) {
	c.cache.Requests.WithLabelValues(status).Inc()
	c.cache.Seconds.WithLabelValues(status).Observe(took.Seconds())
}

// verifying counts a token whose verification begins; the returned function counts the result. Other tokens, such as those of OpenID Connect
// issuers, count neither as fetched nor as failed: they come here with each request, and would hide the cache's share of hits.
func (c *counts) verifying() func(ok bool, err error) {
	states := []string{"in_flight", "blocked"}
	for _, state := range states {
		c.cache.Fetching.WithLabelValues(state).Inc()
	}
	return func(ok bool, err error) {
		for _, state := range states {
			c.cache.Fetching.WithLabelValues(state).Dec()
		}
		switch {
		case err != nil:
			c.cache.Fetches.WithLabelValues("error").Inc()
		case ok:
			c.cache.Fetches.WithLabelValues("ok").Inc()
		}
	}
}

// Describe implements prometheus.Collector.
func (a *Authenticator) Describe(to chan<- *prometheus.Desc) { a.counts.lifetimes.Describe(to) }

// Collect implements prometheus.Collector.
func (a *Authenticator) Collect(to chan<- prometheus.Metric) { a.counts.lifetimes.Collect(to) }
