package discovery_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/discovery"
)

// The expected responses are those of an unmodified kube-apiserver v1.37.1.
func TestNegotiation(t *testing.T) {
	const (
		list     = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
		unstated = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf"
		params   = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
		beta     = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
		proto    = "application/vnd.kubernetes.protobuf"
	)
	h := discovery.New(smallRegistry(), discovery.Options{})
	for _, c := range []struct{ path, accept, contentType, message string }{
		{"/api", "", "application/json", ""},
		{"/api", "application/yaml", "application/yaml", ""},
		{"/api", proto, proto, ""},
		{"/apis", "*/*", "application/json", ""},
		{"/apis/apps", "application/*", "application/json", ""},
		{"/apis/apps/v1", "application/*", "", unstated},
		{"/apis/apps/v1", "text/html, */*;q=0.1", "application/json", ""},
		{"/api", "*", "", unstated},
		{"/api/v1", "*;q=0.5", "", unstated},
		{"/apis/apps/v1", "*/", "", unstated},
		{"/apis", "*", "application/json", ""},
		{"/api", "*, application/yaml", "application/yaml", ""},
		{"/apis/apps/v1", "application/*, application/yaml", "application/yaml", ""},
		{"/apis/apps/v1", "application/json;as=Table;v=v1;g=meta.k8s.io,text/html,application/yaml", "application/yaml", ""},
		{"/api", aggregatedJSON, "application/json" + params, ""},
		{"/api", "application/yaml" + params, "application/yaml" + params, ""},
		{"/apis", proto + params, proto + params, ""},
		{"/api/", aggregatedJSON, "application/json" + params, ""},
		{"/apis/", aggregatedJSON, "", list},
		{"/apis/", aggregatedJSON + ",application/json", "application/json", ""},
		{"/apis", aggregatedJSON + ";profile=nopeer", "application/json" + params, ""},
		{"/apis", beta, "", list},
		{"/apis", beta + ",application/json", "application/json", ""},
		{"/apis", aggregatedJSON + "," + beta + ",application/json", "application/json" + params, ""},
		{"/apis", "application/json," + aggregatedJSON, "application/json" + params, ""},
		{"/apis", "application/yaml;q=1," + aggregatedJSON + ";q=0.1", "application/json" + params, ""},
		{"/api", "application/yaml," + aggregatedJSON, "application/json" + params, ""},
		{"/api", "application/*" + params + ",application/json", "application/json" + params, ""},
		{"/api", "application/*" + params, "", unstated},
		{"/apis", "application/*" + params, "application/json" + params, ""},
		{"/apis", "application/json;sv=v1," + aggregatedJSON + ";stream=watch", "application/json" + params, ""},
		{"/apis", aggregatedJSON + ";sv=v1,application/yaml", "application/yaml", ""},
		{"/apis/", "application/yaml," + aggregatedJSON, "application/yaml", ""},
		{"/apis/", "application/json;sv=x," + aggregatedJSON, "", list},
		{"/api/v1", aggregatedJSON, "", list},
		{"/apis/apps", aggregatedJSON, "", list},
		{"/apis", "application/json;as=Table;v=v1;g=meta.k8s.io", "", list},
		{"/api", "text/html", "", unstated},
		{"/api/v1", "application/cbor", "", unstated},
		{"/api", "application/yaml;stream=watch", "", list},
		{"/apis", "application/yaml;stream=watch", "", list},
		{"/apis/apps", "application/yaml;stream=watch,application/json", "application/json", ""},
		{"/apis/apps/v1", "application/json;stream=watch", "application/json", ""},
		{"/apis/apps/v1", "application/yaml;stream=", "application/yaml", ""},
		{"/apis", "text/html", "", list},
		{"/apis/apps", "text/html", "", list},
	} {
		w := get(t, h, c.path, c.accept)
		if c.message == "" {
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != c.contentType {
				t.Errorf("%s %q: %d %s", c.path, c.accept, w.Code, got)
			}
			continue
		}
		var status metav1.Status
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
			t.Errorf("%s %q: %v in %s", c.path, c.accept, err, w.Body)
		}
		if w.Code != http.StatusNotAcceptable || status.Code != http.StatusNotAcceptable || status.Message != c.message ||
			status.Reason != "NotAcceptable" || (status.Details != nil) != (c.message == unstated) {
			t.Errorf("%s %q: %d %s", c.path, c.accept, w.Code, w.Body)
		}
	}
}

func TestRefusals(t *testing.T) {
	h := discovery.New(smallRegistry(), discovery.Options{})
	for _, c := range []struct {
		method, path string
		code         int
		message      string
	}{
		{"GET", "/apis/nope", 404, "404 page not found\n"},
		{"GET", "/apis/nope/v1", 404, "404 page not found\n"},
		{"GET", "/apis/apps/v1/x", 404, "404 page not found\n"},
		{"GET", "/apis/apps/v2", 404, "the server could not find the requested resource"},
		{"GET", "/api/v2", 404, "the server could not find the requested resource"},
		{"POST", "/api", 405, "the server does not allow this method on the requested resource"},
		{"HEAD", "/apis/apps/v1", 405, "the server does not allow this method on the requested resource"},
		{"POST", "/apis", 200, ""},
		{"DELETE", "/apis/apps", 200, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		message := w.Body.String()
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			var status metav1.Status
			if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
				t.Fatal(err)
			}
			message = status.Message
		}
		if w.Code != c.code || message != c.message {
			t.Errorf("%s %s: %d %q", c.method, c.path, w.Code, message)
		}
	}
}

// A Content-Type that the path does not take is an error even without a body, where kube-apiserver has a router before the document. The expected
// responses are those of an unmodified kube-apiserver v1.37.1.
func TestContentTypes(t *testing.T) {
	reg := smallRegistry()
	reg.SetGroup(resources.GroupSpec{Name: "apiregistration.k8s.io", Versions: []resources.VersionSpec{{Version: "v1"}}})
	reg.SetGroup(resources.GroupSpec{Name: "example.com", Versions: []resources.VersionSpec{{Version: "v1", Types: []*resources.Type{
		{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Kind: "Widget", SingularName: "widget", Untyped: true}}}}})
	h := discovery.New(reg, discovery.Options{})
	const html = "text/html"
	for _, c := range []struct {
		method, path, contentType, accept string
		code                              int
	}{
		{"GET", "/api", html, "", 415},
		{"GET", "/api/", html, "", 415},
		{"GET", "/api/v1", html, "", 415},
		{"GET", "/apis/apps/v1", html, "", 415},
		{"GET", "/apis/apps/v1", "*/*", "", 415},
		{"GET", "/apis/apps/v1", "application/cbor", "", 415},
		{"GET", "/apis/apps/v1", html, html, 415},
		{"GET", "/apis/apps/v1", "application/yaml; charset=utf-8", "", 200},
		{"GET", "/apis/apps/v1", html + ", application/json", "", 200},
		{"POST", "/apis/apps/v1", html, "", 405},
		{"GET", "/apis/apps/v9", html, "", 404},
		{"GET", "/apis/apiregistration.k8s.io", html, "", 415},
		{"GET", "/apis", html, "", 200},
		{"GET", "/apis/", html, "", 200},
		{"GET", "/apis/apps", html, "", 200},
		{"GET", "/apis/example.com", html, "", 200},
		{"GET", "/apis/example.com/v1", html, "", 200},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.code {
			t.Errorf("%s %s with %q: %d %s", c.method, c.path, c.contentType, w.Code, w.Body)
		}
		if c.code != 415 {
			continue
		}
		var status metav1.Status
		err := json.Unmarshal(w.Body.Bytes(), &status)
		if err != nil || status.Message != "415: Unsupported Media Type" || status.Reason != metav1.StatusReasonUnsupportedMediaType || status.Details == nil {
			t.Errorf("%s with %q: %v %s", c.path, c.contentType, err, w.Body)
		}
	}
}
