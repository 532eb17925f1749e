package upstream

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// clientRequests are kube-apiserver's metrics of client-go's clients that dashboards and alerts use: the requests that this process has sent, to
// webhooks for example, and the sizes of requests and answers. Upstream's package for all of them is ten times as large.
type clientRequests struct {
	results, retries *prometheus.CounterVec
	latencies        *prometheus.HistogramVec
	// sent and received are sizes.
	sent, received *prometheus.HistogramVec
}

// CountClientRequests makes client-go count the requests of its clients in the whole process, from the first call on, and returns the collectors.
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
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_request_retries_total",
			Help: "Number of request retries, partitioned by status code, verb, and host."}, []string{"code", "verb", "host"}),
		latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "rest_client_request_duration_seconds",
			Help:    "Request latency in seconds. Broken down by verb, and host.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}}, []string{"verb", "host"}),
	}
	all := metrics.RegisterOpts{RequestLatency: c, RequestResult: c, RequestRetry: c, RequestSize: clientSizes{c.sent}, ResponseSize: clientSizes{c.received}}
	collectors := append(countTransports(&all), c.results, c.retries, c.latencies, c.sent, c.received)
	metrics.Register(all)
	return collectors
})

// Observe implements metrics.LatencyMetric.
func (c clientRequests) Observe(_ context.Context, verb string, u url.URL, latency time.Duration) {
	c.latencies.WithLabelValues(verb, u.Host).Observe(latency.Seconds())
}

// Increment implements metrics.ResultMetric.
func (c clientRequests) Increment(_ context.Context, code, method, host string) {
	c.results.WithLabelValues(code, method, host).Inc()
}

// IncrementRetry implements metrics.RetryMetric.
func (c clientRequests) IncrementRetry(_ context.Context, code, method, host string) {
	c.retries.WithLabelValues(code, method, host).Inc()
}

// clientSizes are the sizes of the requests of clients, or of the answers.
type clientSizes struct{ bytes *prometheus.HistogramVec }

// Observe implements metrics.SizeMetric.
func (s clientSizes) Observe(_ context.Context, verb, host string, size float64) {
	s.bytes.WithLabelValues(verb, host).Observe(size)
}

// countTransports makes client-go count the connections that its clients share, under kube-apiserver's names, and returns the collectors.
func countTransports(into *metrics.RegisterOpts) []prometheus.Collector {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rest_client_transport_" + name, Help: help}, labels)
	}
	kept := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rest_client_transport_cache_entries", Help: "Number of transport entries in the internal cache."})
	asked := vec("create_calls_total", "Number of calls to get a new transport, partitioned by the result of the operation "+
		"hit: obtained from the cache, miss: created and added to the cache, miss-gc: recreated and added back to the cache after being garbage collected, "+
		"uncacheable: created and not cached", "result")
	dropped := vec("cache_gc_calls_total",
		"Number of times a GC cleanup attempts to delete a transport cache entry, partitioned by the result: deleted, skipped", "result")
	authorities := vec("ca_reload_total",
		"Number of times a CA reload is attempted, partitioned by the result and reason for the reload attempt", "result", "reason")
	ended := vec("cert_rotation_gc_calls_total",
		"Number of times a cert rotation goroutine cancel func is called via GC cleanup of the associated transport")
	ended.WithLabelValues()
	into.TransportCacheEntries = transportsKept{kept}
	into.TransportCreateCalls, into.TransportCacheGCCalls = counted{asked}, counted{dropped}
	into.TransportCAReloads, into.TransportCertRotationGCCalls = countedByReason{authorities}, countedCalls{ended}
	return []prometheus.Collector{kept, asked, dropped, authorities, ended}
}

type (
	transportsKept  struct{ n prometheus.Gauge }
	counted         struct{ by *prometheus.CounterVec }
	countedByReason counted
	countedCalls    counted
)

// Observe implements metrics.TransportCacheMetric.
func (k transportsKept) Observe(n int) { k.n.Set(float64(n)) }

// Increment implements metrics.TransportCreateCallsMetric and metrics.TransportCacheGCCallsMetric.
func (c counted) Increment(result string) { c.by.WithLabelValues(result).Inc() }

// Increment implements metrics.TransportCAReloadsMetric.
func (c countedByReason) Increment(result, reason string) { c.by.WithLabelValues(result, reason).Inc() }

// Increment implements metrics.TransportCertRotationGCCallsMetric.
func (c countedCalls) Increment() { c.by.WithLabelValues().Inc() }
