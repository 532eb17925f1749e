package authn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	base "k8s.io/component-base/metrics"

	"github.com/rowlock/rowlock/resources/upstream"
)

// counts are kube-apiserver's authentication metrics, by its names. Those of the cache of ServiceAccount tokens are upstream's, which its caches of
// other tokens use, too.
type counts struct {
	lifetimes prometheus.Histogram
	hit, miss lookups
	// fetched and failed count verified tokens of ServiceAccounts; fetching is how many are being verified.
	fetched, failed base.CounterMetric
	fetching        []base.GaugeMetric
}

// lookups counts lookups of ServiceAccount tokens in the cache.
type lookups struct {
	requests base.CounterMetric
	seconds  base.ObserverMetric
}

func (l lookups) took(d time.Duration) {
	l.requests.Inc()
	l.seconds.Observe(d.Seconds())
}

func newCounts() *counts {
	const day = 24 * 3600
	lifetimes := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "apiserver_client_certificate_expiration_seconds",
		Help:    "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
		Buckets: []float64{0, 1800, 3600, 7200, 21600, 43200, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day}})
	all := upstream.TokenCache()
	lookup := func(status string) lookups {
		return lookups{all.Requests.WithLabelValues(status), all.Seconds.WithLabelValues(status)}
	}
	return &counts{lifetimes: lifetimes, hit: lookup("hit"), miss: lookup("miss"),
		fetched: all.Fetches.WithLabelValues("ok"), failed: all.Fetches.WithLabelValues("error"),
		fetching: []base.GaugeMetric{all.Fetching.WithLabelValues("in_flight"), all.Fetching.WithLabelValues("blocked")}}
}

// verifying counts a token whose verification begins; the returned function counts the result. Other tokens, such as those of OpenID Connect
// issuers, count neither as fetched nor as failed: they come here with each request, and would hide the cache's share of hits.
func (c *counts) verifying() func(ok bool, err error) {
	for _, g := range c.fetching {
		g.Inc()
	}
	return func(ok bool, err error) {
		for _, g := range c.fetching {
			g.Dec()
		}
		switch {
		case err != nil:
			c.failed.Inc()
		case ok:
			c.fetched.Inc()
		}
	}
}

// Describe implements prometheus.Collector.
func (a *Authenticator) Describe(to chan<- *prometheus.Desc) { a.counts.lifetimes.Describe(to) }

// Collect implements prometheus.Collector.
func (a *Authenticator) Collect(to chan<- prometheus.Metric) { a.counts.lifetimes.Collect(to) }
