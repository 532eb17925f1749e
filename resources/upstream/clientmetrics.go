package upstream

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// clientRequests are those of kube-apiserver's metrics of client-go's clients that dashboards and alerts ask for: which requests
// this process has sent, to webhooks for one, and how large they and their answers were. Upstream's package for all of them is ten times as large.
type clientRequests struct {
	results   *prometheus.CounterVec
	latencies *prometheus.HistogramVec
	// sent and received are sizes.
	sent, received *prometheus.HistogramVec
}

// CountClientRequests has client-go count the requests of its clients in the whole process, from the first call on, and returns what counts.
var CountClientRequests = sync.OnceValue(func() []prometheus.Collector {
	size := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help,
			Buckets: []float64{64, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}}, []string{"verb", "host"})
	}
	c := clientRequests{
		sent:     size("rest_client_request_size_bytes", "Request size in bytes. Broken down by verb and host."),
		received: size("rest_client_response_size_bytes", "Response size in bytes. Broken down by verb and host."),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_requests_total",
			Help: "Number of HTTP requests, partitioned by status code, method, and host."}, []string{"code", "method", "host"}),
		latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_request_duration_seconds",
			Help:    "Request latency in seconds. Broken down by verb, and host.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}}, []string{"verb", "host"}),
	}
	metrics.Register(metrics.RegisterOpts{RequestLatency: c, RequestResult: c,
		RequestSize: clientSizes{c.sent}, ResponseSize: clientSizes{c.received}})
	return []prometheus.Collector{c.results, c.latencies, c.sent, c.received}
})

// Observe implements metrics.LatencyMetric.
func (c clientRequests) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	c.latencies.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// Increment implements metrics.ResultMetric.
func (c clientRequests) Increment(_ context.Context, code, method, host string) {
	c.results.WithLabelValues(code, method, host).Inc()
}

// clientSizes are those of the requests of clients, or of the answers.
type clientSizes struct{ bytes *prometheus.HistogramVec }

// Observe implements metrics.SizeMetric.
func (s clientSizes) Observe(_ context.Context, verb, host string, size float64) {
	s.bytes.WithLabelValues(verb, host).Observe(size)
}
