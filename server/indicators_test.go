package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/health"
)

// The results of health checks are at /metrics/slis, since the last DELETE.
func TestIndicators(t *testing.T) {
	var broken error
	s := newServer(t, func(c *server.Config) {
		c.Checks = []health.Check{{Name: "moody", Run: func(*http.Request) error { return broken }}}
	})
	get(s.Handler(), "/readyz", "known")
	broken = errors.New("today")
	get(s.Handler(), "/readyz", "known")
	get(s.Handler(), "/healthz", "known")
	w := get(s.Handler(), "/metrics/slis", "known")
	for _, line := range []string{
		`kubernetes_healthcheck{name="moody",type="readyz"} 0`,
		`kubernetes_healthcheck{name="moody",type="healthz"} 0`,
		`kubernetes_healthchecks_total{name="moody",status="success",type="readyz"} 1`,
		`kubernetes_healthchecks_total{name="moody",status="error",type="readyz"} 1`,
	} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no %s in\n%s", line, w.Body)
		}
	}
	r := httptest.NewRequest("DELETE", "/metrics/slis", nil)
	r.Header.Set("Authorization", "known")
	w = httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != 200 || w.Body.String() != "metrics reset\n" {
		t.Errorf("DELETE: %d, %q", w.Code, w.Body)
	}
	if after := get(s.Handler(), "/metrics/slis", "known").Body.String(); strings.Contains(after, "moody") {
		t.Errorf("after DELETE:\n%s", after)
	}
	if w := get(s.Handler(), "/metrics/slis", ""); w.Code != 401 {
		t.Errorf("an anonymous client is answered %d", w.Code)
	}
}

// Request durations have classic and native histograms (KEP-5808).
func TestNativeHistograms(t *testing.T) {
	metrics := prometheus.NewRegistry()
	s := newServer(t, func(c *server.Config) { c.Metrics = metrics })
	get(s.Handler(), "/healthz", "known")
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "apiserver_request_duration_seconds" {
			continue
		}
		if h := f.Metric[0].Histogram; len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 {
			t.Errorf("not in both: %s", h)
		}
		return
	}
	t.Error("no times of requests")
}
