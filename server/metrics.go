package server

import (
	"context"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// metrics is what the server counts, under kube-apiserver's names where it has the same.
type metrics struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	inflight  *prometheus.GaugeVec
	streams   *prometheus.GaugeVec
	rejected  *prometheus.CounterVec
	panics    prometheus.Counter
	fallbacks *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry, builtDocuments func() int64) (*metrics, error) {
	labels := []string{"verb", "group", "version", "resource", "subresource", "scope"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_total",
			Help: "Requests by verb, resource and HTTP status code."}, append(labels, "code")),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_duration_seconds",
			Help:    "Time to answer, watches apart.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
			// For scrapers that ask in protobuf, as fine as kube-apiserver's (KEP-5808).
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_current_inflight_requests",
			Help: "Requests under way, watches apart."}, []string{"request_kind"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests",
			Help: "Watches and other streams that are open."}, labels),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_dropped_requests_total",
			Help: "Requests answered with 429 because too many were under way."}, []string{"request_kind"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "apiserver_request_panics_total",
			Help: "Requests that ended in a panic."}),
		fallbacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rowlock_managed_fields_fallback_total",
			Help: "Writes whose managedFields were computed by upstream's manager, by the reason."}, []string{"reason"}),
	}
	built := prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rowlock_openapi_documents_built_total",
		Help: "OpenAPI documents that had to be built, because none was prepared for what is served."},
		func() float64 { return float64(builtDocuments()) })
	all := []prometheus.Collector{built, m.requests, m.durations, m.inflight, m.streams, m.rejected, m.panics, m.fallbacks,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	for _, path := range fastpath.All() {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "rowlock_fast_path_fallbacks_total",
			Help:        "What a fast path left to the plain way, although it is on, by the path (docs/fast-paths.md).",
			ConstLabels: prometheus.Labels{"path": path.Name}}, func() float64 { return float64(path.Fallbacks()) }))
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// registerParts registers what parts of the server count themselves.
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

func (m *metrics) managedFieldsFallback(reason string) { m.fallbacks.WithLabelValues(reason).Inc() }

// withMetrics counts requests by what they were about. Paths below no served resource are not told apart, so that an
// anonymous client cannot make the server keep a series for each path it invents.
func (s *Server) withMetrics(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		info, began := requestInfo(c), time.Now()
		s.trimmer.busy()
		values := s.metricLabels(c.Request().Context(), info)
		stream := longRunning(info)
		var gauge prometheus.Gauge
		if stream {
			gauge = s.metrics.streams.WithLabelValues(values...)
		} else {
			gauge = s.metrics.inflight.WithLabelValues(kindOf(c.Request().Method))
		}
		gauge.Inc()
		defer func() {
			if later := laterOf(c); later != nil {
				later.Do(func(any) { gauge.Dec() })
				return
			}
			gauge.Dec()
		}()
		err := next(c)
		if err != nil {
			s.writeError(err, c) // now, so that its code is known; the router finds the answer begun
		}
		if !stream {
			s.metrics.durations.WithLabelValues(values...).Observe(time.Since(began).Seconds())
		}
		coded := append(values, strconv.Itoa(c.Response().Status))
		if later := laterOf(c); later != nil {
			later.Do(func(any) { s.metrics.requests.WithLabelValues(coded...).Inc() })
			return nil
		}
		s.metrics.requests.WithLabelValues(coded...).Inc()
		return nil
	}
}

func kindOf(method string) string {
	if method == "GET" || method == "HEAD" {
		return "readOnly"
	}
	return "mutating"
}

func (s *Server) metricLabels(ctx context.Context, info *genericapirequest.RequestInfo) []string {
	values := make([]string, 6, 7)
	if !info.IsResourceRequest {
		values[0] = knownVerb(info.Verb)
		return values
	}
	served, ok := s.Registry.CatalogOf(ctx).Lookup(gvrOf(info))
	if !ok {
		values[0] = knownVerb(info.Verb)
		return values
	}
	values[0], values[1], values[2], values[3] = knownVerb(info.Verb), info.APIGroup, info.APIVersion, info.Resource
	if _, ok := served.Subresources[info.Subresource]; ok {
		values[4] = info.Subresource
	}
	switch {
	case info.Name != "":
		values[5] = "resource"
	case info.Namespace != "":
		values[5] = "namespace"
	default:
		values[5] = "cluster"
	}
	return values
}

func knownVerb(verb string) string {
	switch verb {
	case "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "post", "put", "head", "options", "proxy":
		return verb
	}
	return "other"
}
