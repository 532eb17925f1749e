package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
)

// ask sends a request with the administrator's credentials, or with none.
func ask(t *testing.T, anonymous bool, method, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	config := shared.config
	if anonymous {
		config = rest.AnonymousClientConfig(config)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		q.Header.Set(name, value)
	}
	response, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// TestHealth reads health in its forms.
func TestHealth(t *testing.T) {
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		response, body := ask(t, true, http.MethodGet, path)
		if response.StatusCode != http.StatusOK || body != "ok" {
			t.Errorf("%s: %s %q", path, response.Status, body)
		}
		if got := response.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
			t.Errorf("%s: Content-Type %q", path, got)
		}
		_, body = ask(t, true, http.MethodGet, path+"?verbose")
		wants(t, body, "[+]ping ok\n", "\n"+path[1:]+" check passed\n")
		if response, body = ask(t, false, http.MethodGet, path+"/ping"); response.StatusCode != http.StatusOK || body != "ok" {
			t.Errorf("%s/ping: %s %q", path, response.Status, body)
		}
		_, body = ask(t, true, http.MethodGet, path+"?verbose&exclude=ping")
		wants(t, body, "[+]ping excluded: ok\n")
		if response, _ = ask(t, false, http.MethodGet, path+"/nonsense"); response.StatusCode == http.StatusOK {
			t.Errorf("%s/nonsense: %s", path, response.Status)
		}
	}
}

// TestVersion reads the version as clients do before anything else.
func TestVersion(t *testing.T) {
	response, body := ask(t, true, http.MethodGet, "/version")
	var info version.Info
	if err := json.Unmarshal([]byte(body), &info); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v\n%s", response.Status, err, body)
	}
	if info.Major != "1" || info.Minor != "37" || !strings.HasPrefix(info.GitVersion, "v1.37.") || info.Platform == "" || info.GoVersion == "" {
		t.Errorf("version: %+v", info)
	}
}

// TestMetrics reads the metrics as Prometheus does.
func TestMetrics(t *testing.T) {
	response, body := ask(t, false, http.MethodGet, "/metrics")
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%s, %s", response.Status, response.Header.Get("Content-Type"))
	}
	wants(t, body, "# TYPE ", "process_resident_memory_bytes ", "go_goroutines ")
	if !strings.Contains(body, "request") {
		t.Error("no metric of requests")
	}
}

// TestAnonymous checks that anonymous clients are refused everything but the version and health.
func TestAnonymous(t *testing.T) {
	for _, path := range []string{"/api/v1/namespaces", "/apis/apps/v1/deployments", "/metrics"} {
		response, _ := ask(t, true, http.MethodGet, path)
		if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	response, body := ask(t, true, http.MethodGet, "/api/v1/namespaces", "Authorization: Bearer wrong")
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %s %s", response.Status, body)
	}
}

// TestOpenAPI reads both versions of the specification, and checks that a second request finds nothing changed.
func TestOpenAPI(t *testing.T) {
	response, body := ask(t, false, http.MethodGet, "/openapi/v2", "Accept: application/json")
	var v2 struct {
		Swagger     string
		Paths       map[string]any
		Definitions map[string]any
	}
	if err := json.Unmarshal([]byte(body), &v2); err != nil || v2.Swagger != "2.0" {
		t.Fatalf("%s: %v, swagger %q", response.Status, err, v2.Swagger)
	}
	if v2.Paths["/api/v1/namespaces/{namespace}/pods/{name}"] == nil || v2.Definitions["io.k8s.api.core.v1.Pod"] == nil {
		t.Error("pods are not described")
	}
	tag := response.Header.Get("ETag")
	if response, _ := ask(t, false, http.MethodGet, "/openapi/v2", "Accept: application/json", "If-None-Match: "+tag); tag == "" || response.StatusCode != http.StatusNotModified {
		t.Errorf("with ETag %q: %s", tag, response.Status)
	}
	_, body = ask(t, false, http.MethodGet, "/openapi/v3")
	var v3 struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if err := json.Unmarshal([]byte(body), &v3); err != nil {
		t.Fatal(err)
	}
	url := v3.Paths["apis/apps/v1"].ServerRelativeURL
	if !strings.HasPrefix(url, "/openapi/v3/apis/apps/v1?hash=") {
		t.Fatalf("URL of apps/v1: %q", url)
	}
	response, body = ask(t, false, http.MethodGet, url, "Accept: application/json")
	wants(t, body, `"io.k8s.api.apps.v1.Deployment"`)
	if !strings.Contains(response.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("Cache-Control of a hashed URL: %q", response.Header.Get("Cache-Control"))
	}
}
