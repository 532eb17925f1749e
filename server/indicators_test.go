package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/health"
)

// Health checks and the collection of metrics do not keep a server from returning memory; other requests do.
func TestMonitoredServerIsIdle(t *testing.T) {
	s := newServer(t, nil)
	for _, path := range []string{"/healthz", "/livez", "/readyz?verbose", "/readyz/ping", "/metrics", "/metrics/slis"} {
		before := s.BusyRequests()
		if w := get(s.Handler(), path, "known"); w.Code != http.StatusOK || s.BusyRequests() != before {
			t.Errorf("%s: %d, and it counts %d times", path, w.Code, s.BusyRequests()-before)
		}
	}
	for _, path := range []string{"/version", "/healthzy", "/api/v1/namespaces", "/metricsy"} {
		before := s.BusyRequests()
		if get(s.Handler(), path, "known"); s.BusyRequests() != before+1 {
			t.Errorf("%s counts %d times", path, s.BusyRequests()-before)
		}
	}
}

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

// A DELETE resets the metrics, upstream's and the server's. Without profiling it is like a GET, as in kube-apiserver.
func TestMetricsAreReset(t *testing.T) {
	const alone = "RESETS_METRICS"
	if os.Getenv(alone) == "" { // other tests of this process expect the metrics that upstream's packages set when it begins
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMetricsAreReset$")
		again.Env = append(os.Environ(), alone+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	for _, profiling := range []bool{true, false} {
		var aggregator *aggregate.Aggregator
		s := newServer(t, func(c *server.Config) {
			c.WithoutProfiling = !profiling
			aggregator = aggregate.New(aggregate.Config{Registry: c.Registry, Store: c.Store, Logger: c.Logger})
			c.Aggregator = aggregator
		})
		aggregator.CountUnavailable("gone", "some")
		create := func() {
			t.Helper()
			if w := ask(s.Handler(), "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"generateName":"a-"}}`); w.Code != 201 {
				t.Fatal(w.Code, w.Body)
			}
		}
		create()
		create()
		send := func(method, path string) string {
			t.Helper()
			r := httptest.NewRequest(method, path, nil)
			r.Header.Set("Authorization", "known")
			w := httptest.NewRecorder()
			if s.Handler().ServeHTTP(w, r); w.Code != 200 {
				t.Fatalf("%s %s: %d", method, path, w.Code)
			}
			return w.Body.String()
		}
		const own, upstreams = `apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} `, "\napiserver_conversion_webhook_request_total{"
		conversion.Metrics.ObserveConversionWebhookSuccess(t.Context(), time.Second)
		send("GET", "/readyz")
		if before := send("GET", "/metrics"); !strings.Contains(before, own) || !strings.Contains(before, upstreams) {
			t.Fatalf("before: %s", before)
		}
		for _, path := range []string{"/metrics/slis", "/metrics"} {
			if answer := send("DELETE", path); (answer == "metrics reset\n") != profiling {
				t.Errorf("DELETE %s with profiling %v: %s", path, profiling, answer)
			}
		}
		create()
		after := send("GET", "/metrics")
		for line, want := range afterReset(profiling) {
			if strings.Contains(after, "\n"+line+"\n") != want {
				t.Errorf("after a DELETE with profiling %v, that there is %s is %v", profiling, line, !want)
			}
		}
		if strings.Contains(after, own) == profiling || strings.Contains(after, upstreams) == profiling {
			t.Errorf("after a DELETE with profiling %v: %s", profiling, after)
		}
	}
}

// afterReset tells which lines of metrics are expected after two creations, a DELETE of the metrics, which has an effect or none, and one more creation.
func afterReset(effect bool) map[string]bool {
	return map[string]bool{
		`etcd_requests_total{group="",operation="create",resource="configmaps"} 1`:                                                                      effect,
		`etcd_request_duration_seconds_count{group="",operation="create",resource="configmaps"} 1`:                                                      effect,
		`apiserver_admission_step_admission_duration_seconds_count{operation="CREATE",rejected="false",type="validate"} 1`:                              effect,
		`apiserver_admission_controller_admission_duration_seconds_count{name="NamespaceLifecycle",operation="CREATE",rejected="false",type="admit"} 1`: effect,
		`authentication_attempts{result="success"} 2`:                                                                                                   effect, // the creation, and this request
		`authentication_duration_seconds_count{result="success"} 2`:                                                                                     effect,
		`authenticated_user_requests{username="other"} 2`:                                                                                               effect,
		`apiserver_request_filter_duration_seconds_count{filter="authentication"} 2`:                                                                    effect,
		`aggregator_unavailable_apiservice_total{name="gone",reason="some"} 1`:                                                                          !effect,
	}
}

// Histograms have classic and native buckets (KEP-5808), as those of kube-apiserver that has the same requests, and classic ones only without the gate.
func TestNativeHistograms(t *testing.T) {
	t.Cleanup(func() {
		if err := upstream.SetFeatureGates(map[string]bool{"NativeHistograms": true}); err != nil {
			t.Error(err)
		}
	})
	for _, on := range []bool{true, false} {
		if err := upstream.SetFeatureGates(map[string]bool{"NativeHistograms": on}); err != nil {
			t.Fatal(err)
		}
		metrics := prometheus.NewRegistry()
		h := newServer(t, func(c *server.Config) { c.Metrics = metrics }).Handler()
		get(h, "/healthz", "known")
		send(h, "known", "POST", "/api/v1/namespaces", `{"metadata":{"name":"a"}}`)
		get(h, "/api/v1/namespaces", "known")
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		native := map[string]bool{}
		for _, f := range families {
			if h := f.Metric[0].GetHistogram(); h != nil && !strings.HasPrefix(f.GetName(), "go_") {
				native[f.GetName()] = h.Schema != nil
				if len(h.GetBucket()) == 0 {
					t.Errorf("%s has no classic buckets", f.GetName())
				}
			}
		}
		for _, name := range []string{"apiserver_request_body_size_bytes", "apiserver_request_duration_seconds", "apiserver_request_filter_duration_seconds",
			"apiserver_request_sli_duration_seconds", "apiserver_response_sizes", "authentication_duration_seconds", "authorization_duration_seconds",
			"etcd_request_duration_seconds"} {
			if is, ok := native[name]; !ok || is != on {
				t.Errorf("%s: native is %v, there is %v; want %v", name, is, ok, on)
			}
		}
		for _, name := range []string{"apiserver_admission_step_admission_duration_seconds", "apiserver_admission_controller_admission_duration_seconds"} {
			if native[name] {
				t.Errorf("%s is native, unlike kube-apiserver's", name)
			}
		}
	}
}
