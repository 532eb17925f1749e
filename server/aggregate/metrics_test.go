package aggregate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// metric returns the value of a metric with its labels; empty: there is none.
func (f *fixture) metric(name string) string {
	f.Helper()
	for line := range strings.Lines(f.must("GET", "/metrics", "")) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	return ""
}

// The metrics say which APIServices are unavailable, and how often one has become so.
func TestMetrics(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	const gauge = `aggregator_unavailable_apiservice{name="v1.apples.example.com"}`
	const counter = `aggregator_unavailable_apiservice_total{name="v1.apples.example.com",reason="ServiceNotFound"}`
	if g, c := f.metric(gauge), f.metric(counter); g != "0" || c != "" {
		t.Errorf("while it is available: %q, %q", g, c)
	}
	f.must("DELETE", "/api/v1/namespaces/default/services/ext", "")
	f.condition("ServiceNotFound")
	for until := time.Now().Add(patience); f.metric(counter) == "" && time.Now().Before(until); { // the counter increases after the write of the status
		time.Sleep(time.Millisecond)
	}
	if g, c := f.metric(gauge), f.metric(counter); g != "1" || c != "1" {
		t.Errorf("while it is not: %q, %q", g, c)
	}
	const failed = `apiserver_request_terminations_total{code="503",component="aggregator",group="apples.example.com",resource="apples",scope="cluster",` +
		`subresource="",verb="LIST",version="v1"}`
	before := f.metric(failed) // of all servers in the process
	f.send("GET", "/apis/apples.example.com/v1/apples", "")
	if now := f.metric(failed); now == "" || now == before {
		t.Errorf("a request that is not passed on: %q, then %q", before, now)
	}
	f.must("DELETE", apiServices+"/v1.apples.example.com", "")
	if g := f.metric(gauge); g != "" {
		t.Errorf("after it: %q", g)
	}
}

// Requests to a server whose certificate names no host in the form of today are counted, on the connections of short reads and on the others.
func TestCertificatesOfOtherServersAreCounted(t *testing.T) {
	f := newFixture(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ext.default.svc"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	f.ext.certificate.Store(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})
	f.service()
	f.must("POST", apiServices, fmt.Sprintf(`{"metadata":{"name":"v1.apples.example.com"},"spec":{"group":"apples.example.com","version":"v1","groupPriorityMinimum":2000,
		"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"ext","port":%d}}}`, f.ext.port()))
	f.condition("Passed")
	for name, method := range map[string]string{"a short read": "GET", "a write": "POST"} {
		before := f.metric("apiserver_kube_aggregator_x509_missing_san_total") // of all servers in the process
		f.must(method, apples+"/apples", "")
		if now := f.metric("apiserver_kube_aggregator_x509_missing_san_total"); now == "" || now == before {
			t.Errorf("after %s there are %q, and were %q", name, now, before)
		}
	}
	if n := f.metric("apiserver_kube_aggregator_x509_insecure_sha1_total"); n == "" {
		t.Error("signatures are not counted")
	}
}

// As in kube-apiserver, requests that another server answers are not among the requests that this one has answered, even of a type that it has, too,
// and their watches are not among its own.
func TestProxiedRequestsAreNotCounted(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	f.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"plums.apples.example.com"},"spec":{"group":"apples.example.com",
		"scope":"Namespaced","names":{"plural":"plums","kind":"Plum"},"versions":[
			{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},
			{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	for _, version := range []string{"v1", "v2"} {
		f.must("GET", "/apis/apples.example.com/"+version+"/namespaces/default/plums", "")
	}
	go func() { f.ext.event <- "first" }()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.address+apples+"/plums?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "known")
	watch, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	counted := map[string]bool{}
	for line := range strings.Lines(f.must("GET", "/metrics", "")) {
		name, rest, _ := strings.Cut(line, "{")
		if version, of := "v1", strings.Contains(rest, `resource="plums"`) && !strings.HasSuffix(rest, " 0\n"); of {
			if strings.Contains(rest, `version="v2"`) {
				version = "v2"
			}
			counted[name+" "+version] = true
		}
	}
	for _, name := range []string{"apiserver_request_total", "apiserver_request_duration_seconds_count", "apiserver_request_sli_duration_seconds_count", "apiserver_response_sizes_count"} {
		if counted[name+" v1"] || !counted[name+" v2"] {
			t.Errorf("%s counts v1: %t, v2: %t", name, counted[name+" v1"], counted[name+" v2"])
		}
	}
	if counted["apiserver_longrunning_requests v1"] {
		t.Error("the watch is counted as one of this server")
	}
}
