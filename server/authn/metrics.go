package authn

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are kube-apiserver's authentication metrics, by its names.
type counts struct {
	lifetimes prometheus.Histogram
	hit, miss lookups
	// fetched and failed count verified tokens of ServiceAccounts; fetching is how many are being verified.
	fetched, failed prometheus.Counter
	fetching        []prometheus.Gauge
	all             []prometheus.Collector
}

// lookups counts lookups of ServiceAccount tokens in the cache.
type lookups struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

func (l lookups) took(d time.Duration) {
	l.requests.Inc()
	l.seconds.Observe(d.Seconds())
}

func newCounts() *counts {
	const day = 24 * 3600
	status := []string{"status"}
	lifetimes := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "apiserver_client_certificate_expiration_seconds",
		Help:    "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
		Buckets: []float64{0, 1800, 3600, 7200, 21600, 43200, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day}})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authentication_token_cache_request_total",
		Help: "Lookups of ServiceAccount tokens in the cache of authenticated tokens, by result (hit or miss)."}, status)
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "authentication_token_cache_request_duration_seconds",
		Help: "Time to authenticate such a token."}, status)
	fetches := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authentication_token_cache_fetch_total",
		Help: "Such tokens that were verified."}, status)
	active := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "authentication_token_cache_active_fetch_count",
		Help: "Verifications of such tokens in progress."}, status)
	lookup := func(status string) lookups {
		return lookups{requests.WithLabelValues(status), seconds.WithLabelValues(status)}
	}
	return &counts{lifetimes: lifetimes, hit: lookup("hit"), miss: lookup("miss"),
		fetched: fetches.WithLabelValues("ok"), failed: fetches.WithLabelValues("error"),
		fetching: []prometheus.Gauge{active.WithLabelValues("in_flight"), active.WithLabelValues("blocked")},
		all:      []prometheus.Collector{lifetimes, requests, seconds, fetches, active}}
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
func (a *Authenticator) Describe(to chan<- *prometheus.Desc) {
	for _, c := range a.counts.all {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (a *Authenticator) Collect(to chan<- prometheus.Metric) {
	for _, c := range a.counts.all {
		c.Collect(to)
	}
}
