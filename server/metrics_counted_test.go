package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
)

// Requests that kube-apiserver does not count are not counted, and the others have its labels.
func TestWhatIsCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(by, method, path, accept, body string) {
		t.Helper()
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", by)
		r.Header.Set("Accept", accept)
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		h.ServeHTTP(w, r)
	}
	const json, maps, aggregated = "application/json", "/api/v1/namespaces/default/configmaps", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	send("master", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"widgets","kind":"Widget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	for _, r := range [][5]string{
		{"master", "POST", "/apis/example.com/v1/widgets", json, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`},
		{"master", "DELETE", "/apis/example.com/v1/widgets", json, ""},
		{"master", "GET", "/apis/example.com/v1/widgets?fieldSelector=metadata.name%3Da", json, ""},
		{"master", "GET", maps + "?fieldSelector=metadata.name%3Da", json, ""},
		{"master", "GET", "/apis", aggregated, ""}, {"master", "GET", "/apis", json, ""}, {"master", "GET", "/openapi/v3", json, ""},
		{"master", "GET", "/openapi/v3/api/v1", json, ""}, {"master", "GET", "/version", json, ""}, {"master", "GET", "/nothing", json, ""},
		{"master", "GET", "/statusz", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", ""}, {"master", "GET", "/statusz", "text/plain", ""},
		{"master", "GET", "/api/v1/nothings", json, ""}, {"master", "PUT", maps, json, "{}"}, {"master", "GET", "/api/v1/nodes/a/nothing", json, ""},
		{"nobody", "GET", "/api/v1/secrets", json, ""},
	} {
		send(r[0], r[1], r[2], r[3], r[4])
	}
	body := get(h, "/metrics", "master").Body.String()
	const own, custom = `dry_run="",group="",resource="",scope="",`, `component="apiserver",dry_run="",group="example.com",resource="widgets",scope=`
	for _, labels := range []string{
		`code="201",` + custom + `"resource",subresource="",verb="POST",version="v1"`,
		`code="200",` + custom + `"cluster",subresource="",verb="DELETE",version="v1"`,
		`code="200",` + custom + `"resource",subresource="",verb="GET",version="v1"`,
		`code="200",component="apiserver",dry_run="",group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"`,
		`code="200",component="apiserver",` + own + `subresource="apis",verb="GET",version=""`,
		`code="200",component="",` + own + `subresource="openapi/v3",verb="GET",version=""`,
		`code="200",component="",` + own + `subresource="openapi/v3/",verb="GET",version=""`,
		`code="200",component="apiserver",dry_run="",group="config.k8s.io",resource="statusz",scope="",subresource="",verb="GET",version="v1beta1"`,
		`code="200",component="apiserver",dry_run="",group="",resource="statusz",scope="",subresource="",verb="GET",version=""`,
	} {
		wantLine(t, body, "apiserver_request_total{"+labels+"} 1")
	}
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "apiserver_request_total{") {
			continue
		}
		for _, none := range []string{`code="401"`, `code="403"`, `code="404"`, `code="405"`, `subresource="",verb="GET",version=""} 2`, "DELETECOLLECTION", "CREATE"} {
			if strings.Contains(line, none) {
				t.Errorf("kube-apiserver counts no %s", line)
			}
		}
	}
}

// Certificates are counted by the requested duration and whether they got it; discovery documents and requests for logs of Pods are counted, too.
func TestWhatUpstreamKeepsIsCounted(t *testing.T) {
	h := newServer(t, nil).Handler()
	send := func(method, path, body string) {
		t.Helper()
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", map[string]string{"PATCH": "application/merge-patch+json"}[method])
		if h.ServeHTTP(w, r); w.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	day, certificate := 24*60*60, issuedFor(t, 24*60*60)
	for name, seconds := range map[string]int{"honored": day, "other": 10 * day, "unsaid": 0} {
		send("POST", requests, signingRequest(t, name, seconds))
		send("PATCH", requests+"/"+name+"/status?dryRun=All", `{"status":{"certificate":"`+certificate+`"}}`)
		send("PATCH", requests+"/"+name+"/status", `{"status":{"certificate":"`+certificate+`"}}`)
	}
	get(h, "/api/v1/namespaces/default/pods/p/log?insecureSkipTLSVerifyBackend=true", "master")
	r := httptest.NewRequest("GET", "/apis", nil)
	r.Header.Set("Authorization", "master")
	r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	h.ServeHTTP(httptest.NewRecorder(), r)
	body := get(h, "/metrics", "master").Body.String()
	wantLine(t, body, `apiserver_certificates_registry_csr_requested_duration_total{signerName="other"} 2`)
	wantLine(t, body, `apiserver_certificates_registry_csr_honored_duration_total{signerName="other"} 1`)
	wantLine(t, body, `kube_apiserver_pod_logs_insecure_backend_total{usage="skip_tls_allowed"} 1`)
	for _, name := range []string{"aggregator_discovery_aggregation_count_total ", "kube_apiserver_pod_logs_backend_tls_failure_total ", "rest_client_transport_cache_entries "} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// A truncated response is counted as aborted, with kube-apiserver's labels.
func TestAbortsAreCounted(t *testing.T) {
	h := newServer(t, func(c *server.Config) {
		c.Pipeline = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Authorizer: authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetName() == "cut" {
					panic(http.ErrAbortHandler)
				}
				return authorizer.DecisionAllow, "", nil
			})})
	}).Handler()
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http compares so
				t.Errorf("panics with %v", p)
			}
		}()
		get(h, "/api/v1/persistentvolumes/cut", "master") // of which no other test aborts a request
	}()
	wantLine(t, get(h, "/metrics", "master").Body.String(),
		`apiserver_request_aborts_total{group="",resource="persistentvolumes",scope="resource",subresource="",verb="GET",version="v1"} 1`)
}

// signingRequest requests a certificate that is valid for that many seconds; 0: the request names no duration.
func signingRequest(t *testing.T, name string, seconds int) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	lasts := ""
	if seconds > 0 {
		lasts = fmt.Sprintf(`"expirationSeconds":%d,`, seconds)
	}
	encoded := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return `{"metadata":{"name":"` + name + `"},"spec":{"signerName":"example.com/s","usages":["client auth"],` + lasts + `"request":"` + encoded + `"}}`
}

// issuedFor is a certificate that is valid for that many seconds, for the status of a CertificateSigningRequest.
func issuedFor(t *testing.T, seconds int) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(time.Duration(seconds) * time.Second)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
