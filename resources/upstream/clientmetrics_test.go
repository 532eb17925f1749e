package upstream_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Requests of client-go are counted under kube-apiserver's names.
func TestClientRequestsAreCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, c := range upstream.CountClientRequests() {
		registry.MustRegister(c)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404}`)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Post().AbsPath("/hook").Do(t.Context()).Error(); err == nil {
		t.Fatal("nobody is there")
	}
	want := "# HELP rest_client_requests_total Number of HTTP requests, partitioned by status code, method, and host.\n" +
		"# TYPE rest_client_requests_total counter\n" + `rest_client_requests_total{code="404",host="` + host + `",method="POST"} 1` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "rest_client_requests_total"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"rest_client_request_duration_seconds", "rest_client_request_size_bytes", "rest_client_response_size_bytes"} {
		if n, err := testutil.GatherAndCount(registry, name); err != nil || n != 1 {
			t.Errorf("%d of %s, %v", n, name, err)
		}
	}
}

// The metrics show the features that are on, after the last change.
func TestFeaturesAreShown(t *testing.T) {
	const gate = "AllowUnsafeMalformedObjectDeletion"
	t.Cleanup(func() {
		if err := upstream.SetFeatureGates(map[string]bool{gate: false}); err != nil {
			t.Error(err)
		}
	})
	for on, value := range map[bool]string{true: "1", false: "0"} {
		if err := upstream.SetFeatureGates(map[string]bool{gate: on}); err != nil {
			t.Fatal(err)
		}
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "kubernetes_feature_enabled" && m.GetLabel()[0].GetValue() == gate {
					shown = append(shown, fmt.Sprint(m.GetGauge().GetValue()))
				}
			}
		}
		if !slices.Equal(shown, []string{value}) {
			t.Errorf("shown as %s, is %v", shown, on)
		}
	}
}
