package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	compbasemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/prometheus/slis"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/handlers"
)

// metrics are the server's metrics, under kube-apiserver's names where it has the same ones.
type metrics struct {
	requests, selfMade    *prometheus.CounterVec
	durations, own, sizes *prometheus.HistogramVec
	executing             executing
	inqueue               byKind
	streams               *prometheus.GaugeVec
	outgoing              *prometheus.GaugeVec
	panics                prometheus.Counter
	fallbacks             *prometheus.CounterVec
}

// sliBuckets are kube-apiserver's buckets, in seconds; alerts on its service level objectives refer to them.
var sliBuckets = []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

func newMetrics(r *prometheus.Registry, builtDocuments func() int64) (*metrics, error) {
	upstream.CountRequests()
	upstream.CountVersions()
	upstream.CountKept()
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_total",
			Help: "Requests by verb, resource and HTTP status code."}, append(slices.Clone(requestLabels), "code")),
		selfMade: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_selfrequest_total",
			Help: "Requests that the server sends itself, by verb and resource."}, []string{"verb", "group", "resource", "subresource"}),
		durations: upstream.NewHistogramVec("apiserver_request_duration_seconds",
			"Time to answer; for watches, until their end.",
			append([]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025}, sliBuckets...), requestLabels...),
		own: upstream.NewHistogramVec("apiserver_request_sli_duration_seconds",
			"Time to answer without that of webhooks and queues; watches and dry runs are left out.",
			sliBuckets, labelsWithoutDryRun()...),
		sizes: upstream.NewHistogramVec("apiserver_response_sizes",
			"Sizes of answers to reads, in bytes.",
			prometheus.ExponentialBuckets(1000, 10, 7), labelsWithoutDryRun()...),
		inqueue: newByKind("apiserver_current_inqueue_requests", "Requests that wait for others."),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests",
			Help: "Watches and other streams that are open."}, labelsWithoutDryRun()),
		outgoing: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_requested_deprecated_apis",
			Help: "Deprecated versions that were requested, with the release that removes them."},
			[]string{"group", "version", "resource", "subresource", "removed_release"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_request_panics_total",
			Help: "Requests that ended in a panic."}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rowlock_managed_fields_fallback_total",
			Help: "Writes whose managedFields upstream's manager computed, by reason."}, []string{"reason"}),
	}
	built := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rowlock_openapi_documents_built_total",
		Help: "OpenAPI documents that were built because no prepared one fits the served versions and features."},
		func() float64 { return float64(builtDocuments()) })
	all := []prometheus.Collector{built, m.requests, m.selfMade, m.durations, m.own, m.sizes, &m.executing, m.inqueue, m.streams, m.outgoing, m.panics, m.fallbacks,
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	all = append(all, upstream.CountClientRequests()...)
	for _, path := range fastpath.All() {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rowlock_fast_path_fallbacks_total",
			Help:        "Inputs that a fast path in use left to upstream's code, by fast path (docs/fast-paths.md).",
			ConstLabels: prometheus.Labels{"path": path.Name}}, func() float64 { return float64(path.Fallbacks()) }))
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// registerParts registers the metrics that parts of the server collect themselves.
func registerParts(c Config) error {
	if definitions, counts := c.Definitions.(prometheus.Collector); counts {
		if err := c.Metrics.Register(definitions); err != nil {
			return err
		}
	}
	if c.Aggregator == nil {
		return nil
	}
	return c.Metrics.Register(c.Aggregator)
}

// addMetrics adds the paths of the metrics. A DELETE resets them, as in kube-apiserver, unless profiling is off.
func (s *Server) addMetrics(e *echo.Echo) {
	all := compbasemetrics.HandlerFor(s.MetricLimits.limited(withUpstreams(s.Metrics)), compbasemetrics.HandlerOpts{})
	e.Any("/metrics", func(c echo.Context) error {
		if c.Request().Method == http.MethodDelete && !s.WithoutProfiling {
			s.resetMetrics()
			_, err := io.WriteString(c.Response(), "metrics reset\n")
			return err
		}
		all.ServeHTTP(c.Response(), c.Request())
		return nil
	})
	indicators := http.NewServeMux()
	slis.SLIMetricsWithReset{}.Install(indicators)
	e.Any("/metrics/slis", func(c echo.Context) error {
		r := c.Request()
		if s.WithoutProfiling {
			r = r.Clone(r.Context())
			r.Method = http.MethodGet
		}
		indicators.ServeHTTP(c.Response(), r)
		return nil
	})
}

// resetMetrics resets the metrics that kube-apiserver has, too.
func (s *Server) resetMetrics() {
	s.metrics.reset()
	s.access.reset()
	s.commits.reset()
	s.admissions.reset()
	if s.Aggregator != nil {
		s.Aggregator.ResetMetrics()
	}
}

// reset resets upstream's metrics, and what m counts of answered requests. Gauges of requests under way stay right.
func (m *metrics) reset() {
	upstream.ResetMetrics()
	for _, counted := range []interface{ Reset() }{m.requests, m.selfMade, m.durations, m.own, m.sizes, m.outgoing, m.fallbacks} {
		counted.Reset()
	}
}

func (m *metrics) managedFieldsFallback(reason string) { m.fallbacks.WithLabelValues(reason).Inc() }

// withMetrics counts requests by their resource and verb.
func (s *Server) withMetrics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		info, began := requestInfo(c), time.Now()
		if !monitors(info.Path) {
			s.trimmer.busy()
		}
		values, served, counts := s.requestValues(c.Request(), info)
		if longRunning(info) {
			gauge := s.metrics.stream(values, info)
			gauge.Inc()
			defer func() {
				if later := laterOf(c); later != nil {
					later.Do(func(any) { gauge.Dec() })
					return
				}
				gauge.Dec()
			}()
		}
		err := next(c)
		counts = counts && !requestctx.Forwarded(c.Request().Context())
		if err != nil {
			s.writeError(err, c) // here, so that the status code is known; the router's error handler then finds the response committed
		}
		code := c.Response().Status
		if hijacked(c) {
			code = 0 // as kube-apiserver, which sees no code of what is sent then
		}
		if !requestctx.Allowed(c.Request().Context()) {
			s.metrics.dropped(values, code)
			return nil
		}
		if !counts || !s.answeredValues(values, served, c) {
			return nil
		}
		s.metrics.deprecated(served, values)
		s.metrics.sentByItself(c.Request().Context(), values)
		if later := laterOf(c); later != nil {
			later.Do(func(any) {
				s.metrics.answered(values, code, time.Since(began))
				s.forgetEnded(served)
			})
			return nil
		}
		took := time.Since(began)
		s.metrics.answered(values, code, took)
		s.forgetEnded(served)
		s.metrics.answeredByItself(c.Request().Context(), values, took, c.Response().Size)
		return nil
	}
}

// stream returns the gauge for a long-running request.
func (m *metrics) stream(values []string, info *genericapirequest.RequestInfo) prometheus.Gauge {
	values = withoutDryRun(values)
	if info.IsResourceRequest {
		values[5] = scopeOf(info) // as kube-apiserver, which uses pathScope only for finished requests
	}
	return m.streams.WithLabelValues(values...)
}

// dropped counts a request that is rejected for lack of seats. kube-apiserver counts other early rejections only by their reason
// (authentication_attempts, authorization_attempts_total).
func (m *metrics) dropped(values []string, code int) {
	if code == http.StatusTooManyRequests {
		values[7] = component
		m.requests.WithLabelValues(append(values, strconv.Itoa(code))...).Inc()
	}
}

// answered counts a response, with its duration.
func (m *metrics) answered(values []string, code int, took time.Duration) {
	m.requests.WithLabelValues(append(values, strconv.Itoa(code))...).Inc()
	m.durations.WithLabelValues(values...).Observe(took.Seconds())
}

// answeredByItself records how much of a response's time is the server's own, and the size of the response. Watches are excluded: they last as long
// as requested.
func (m *metrics) answeredByItself(ctx context.Context, values []string, took time.Duration, size int64) {
	elsewhere, ok := genericapirequest.LatencyTrackersFrom(ctx)
	if !ok || values[1] != "" {
		return
	}
	values = withoutDryRun(values)
	took -= elsewhere.MutatingWebhookTracker.GetLatency() + elsewhere.ValidatingWebhookTracker.GetLatency() + elsewhere.APFQueueWaitTracker.GetLatency()
	m.own.WithLabelValues(values...).Observe(took.Seconds())
	switch values[0] {
	case http.MethodGet, "LIST", "WATCH": // a GET with watch in its query is called a watch
		m.sizes.WithLabelValues(values...).Observe(float64(size))
	}
}

// sentByItself counts an internal request.
func (m *metrics) sentByItself(ctx context.Context, values []string) {
	if by, known := genericapirequest.UserFrom(ctx); known && by.GetName() == user.APIServerUser {
		m.selfMade.WithLabelValues(values[0], values[2], values[4], values[5]).Inc()
	}
}

// deprecated notes a request for a deprecated version.
func (m *metrics) deprecated(served *resources.Served, values []string) {
	if served == nil {
		return
	}
	if release, deprecated := handlers.Deprecated(served); deprecated {
		m.outgoing.WithLabelValues(values[2], values[3], values[4], values[5], release).Set(1)
	}
}

// byKind is a gauge of requests by kind, reading or mutating.
type byKind struct {
	*prometheus.GaugeVec
	reads, writes prometheus.Gauge
}

func newByKind(name, help string) byKind {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"request_kind"})
	return byKind{vec, vec.WithLabelValues("readOnly"), vec.WithLabelValues("mutating")}
}

func (k byKind) of(verb string) prometheus.Gauge {
	switch verb {
	case "get", "list", "watch":
		return k.reads
	}
	return k.writes
}

// peak is a number of requests, and the largest that it has been since the last scrape. kube-apiserver takes the largest of the last second, for
// which an idle server would have to wake up every second.
type peak struct{ now, most atomic.Int64 }

func (p *peak) add(n int64) (now int64) {
	now = p.now.Add(n)
	for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); {
		most = p.most.Load()
	}
	return now
}

// since returns the largest number since the last call.
func (p *peak) since() float64 {
	now := p.now.Load()
	return float64(max(now, p.most.Swap(now)))
}

var inflight = prometheus.NewDesc("apiserver_current_inflight_requests",
	"Largest number of requests in execution at once since the last scrape; watches count until they are initialized.", []string{"request_kind"}, nil)

// Describe implements prometheus.Collector.
func (e *executing) Describe(all chan<- *prometheus.Desc) { all <- inflight }

// Collect implements prometheus.Collector.
func (e *executing) Collect(all chan<- prometheus.Metric) {
	all <- prometheus.MustNewConstMetric(inflight, prometheus.GaugeValue, e.reads.since(), "readOnly")
	all <- prometheus.MustNewConstMetric(inflight, prometheus.GaugeValue, e.writes.since(), "mutating")
}
