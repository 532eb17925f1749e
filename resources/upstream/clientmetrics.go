package upstream

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// clientRequests are kube-apiserver's two metrics, of those of client-go's clients, that dashboards and alerts ask for: which requests
// this process has sent, to webhooks for one. Upstream's package for all of them is ten times as large.
type clientRequests struct {
	results   *prometheus.CounterVec
	latencies *prometheus.HistogramVec
}

// CountClientRequests has client-go count the requests of its clients in the whole process, from the first call on, and returns what counts.
var CountClientRequests = sync.OnceValue(func() []prometheus.Collector {
	c := clientRequests{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, method, and host."}, []string{"code", "method", "host"}),
		latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_request_duration_seconds",
			Help:    "Request latency in seconds. Broken down by verb, and host.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}}, []string{"verb", "host"}),
	}
	metrics.Register(metrics.RegisterOpts{RequestLatency: c, RequestResult: c})
	return []prometheus.Collector{c.results, c.latencies}
})

// Observe implements metrics.LatencyMetric.
func (c clientRequests) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	c.latencies.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// Increment implements metrics.ResultMetric.
func (c clientRequests) Increment(_ context.Context, code, method, host string) {
	c.results.WithLabelValues(code, method, host).Inc()
}
