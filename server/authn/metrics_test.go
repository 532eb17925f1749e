package authn_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/upstream"
)

// The use of the token cache, and the lifetimes of certificates, are counted under kube-apiserver's names.
func TestCredentialsAreCounted(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.authenticator)
	before := values(t, legacyregistry.DefaultGatherer)
	token := w.token(`{}`)
	for range 3 {
		if w.who(token) == nil {
			t.Fatal("the token is refused")
		}
	}
	if w.who(token[:len(token)-8]+"AAAAAAAA") != nil {
		t.Fatal("a token without a signature is taken")
	}
	for _, others := range []string{"abc", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2FjY291bnRzLmV4YW1wbGUub3JnIn0.c2ln"} {
		if w.who(others) != nil {
			t.Fatal("the token of nobody is taken")
		}
	}
	r := httptest.NewRequest("GET", "/api", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{NotAfter: time.Now().Add(36 * time.Hour)}}}
	if _, ok, _ := w.authenticator.User(r); ok {
		t.Fatal("a certificate of nobody is taken")
	}
	for name, want := range map[string]float64{
		"authentication_token_cache_request_total hit":            2,
		"authentication_token_cache_request_total miss":           2,
		"authentication_token_cache_fetch_total ok":               1,
		"authentication_token_cache_fetch_total error":            1,
		"authentication_token_cache_active_fetch_count in_flight": 0,
		"authentication_token_cache_request_duration_seconds hit": 2,
	} {
		if got, ok := values(t, legacyregistry.DefaultGatherer)[name]; !ok || got-before[name] != want {
			t.Errorf("%s is %v more, not %v", name, got-before[name], want)
		}
	}
	if n := values(t, registry)["apiserver_client_certificate_expiration_seconds "]; n != 1 {
		t.Errorf("%v certificates were counted", n)
	}
	for _, name := range []string{"serviceaccount_legacy_tokens_total ", "serviceaccount_valid_tokens_total ", "serviceaccount_stale_tokens_total "} {
		if _, ok := values(t, legacyregistry.DefaultGatherer)[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
}

// values returns the values of counters and gauges, and the counts of histograms, by name and first label.
func values(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			label := ""
			if pairs := m.GetLabel(); len(pairs) > 0 {
				label = pairs[0].GetValue()
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if f.GetType() == dto.MetricType_HISTOGRAM {
				value = float64(m.GetHistogram().GetSampleCount())
			}
			all[f.GetName()+" "+label] = value
		}
	}
	return all
}

// Tokens are counted after a reset of the metrics, which drops the counters that there are.
func TestTokensAreCountedAfterAReset(t *testing.T) {
	w := newWorld(t, builtin.Tokens{})
	token := w.token(`{}`)
	for range 2 {
		upstream.TokenCache().Requests.Reset()
		if w.who(token) == nil {
			t.Fatal("the token is refused")
		}
	}
	if n, err := testutil.GetCounterMetricValue(upstream.TokenCache().Requests.WithLabelValues("hit")); err != nil || n != 1 {
		t.Errorf("%v hits, %v", n, err)
	}
}
