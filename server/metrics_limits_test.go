package server_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// Disabled metrics are hidden, and other values of limited labels are counted together, as in kube-apiserver.
func TestMetricLimits(t *testing.T) {
	s, _ := servertest.New(t, func(c *server.Config) {
		c.MetricLimits = server.MetricLimits{Disabled: []string{"apiserver_response_sizes", "workqueue_adds_total"}, Labels: map[string]string{
			"apiserver_request_total,code": "200", "apiserver_request_total,resource": "namespaces,pods", "apiserver_request_duration_seconds,verb": "GET"}}
	})
	h := s.Handler()
	for _, path := range []string{"/api/v1/pods", "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/namespaces/x/pods/none"} {
		get(h, path, "known")
	}
	before := get(h, "/metrics", "known").Body.String()
	get(h, "/api/v1/services?watch=1&timeoutSeconds=1", "known")
	body := get(h, "/metrics", "known").Body.String()
	for _, name := range []string{"apiserver_response_sizes", "workqueue_adds_total"} {
		if strings.Contains(body, name) {
			t.Errorf("%s is shown", name)
		}
	}
	const of = `component="apiserver",dry_run="",group="",`
	wantLine(t, body, `apiserver_request_total{code="200",`+of+`resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 1`)
	wantLine(t, body, `apiserver_request_total{code="200",`+of+`resource="unexpected",scope="cluster",subresource="",verb="LIST",version="v1"} 2`)
	wantLine(t, body, `apiserver_request_total{code="unexpected",`+of+`resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 1`)
	wantLine(t, before, `apiserver_request_duration_seconds_count{`+of+`resource="configmaps",scope="cluster",subresource="",verb="unexpected",version="v1"} 1`)
	wantLine(t, body, `apiserver_request_duration_seconds_bucket{`+of+`resource="secrets",scope="cluster",subresource="",verb="unexpected",version="v1",le="60"} 1`)
	if strings.Count(body, `apiserver_request_duration_seconds_count{`+of+`resource="services"`) != 1 {
		t.Error("a watch is not counted once")
	}
	_, counted, _ := strings.Cut(body, "\ncardinality_enforcement_unexpected_categorizations_total ")
	counted, _, _ = strings.Cut(counted, "\n")
	if n, err := strconv.ParseFloat(counted, 64); err != nil || math.IsNaN(n) || n < 4 {
		t.Errorf("values were replaced %q times, not at least 4", counted)
	}
	// Joining series at a scrape does not modify the counters.
	wantLine(t, get(h, "/metrics", "known").Body.String(), `apiserver_request_total{code="200",`+of+`resource="unexpected",scope="cluster",subresource="",verb="LIST",version="v1"} 2`)
}
