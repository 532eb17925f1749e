package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
)

// TestZPages checks that a request without preference gets a text, and one for the object gets the object.
func TestZPages(t *testing.T) {
	h := newServer(t, func(c *server.Config) { c.Flags = map[string]string{"a": "b", "datastore": "CLASSIFIED"} }).Handler()
	const refused = "only the following media types are accepted: application/json, application/yaml, text/plain"
	for _, test := range []struct {
		path, accept string
		code         int
		want         string
	}{
		{"/flagz", "", 200, "purposes only.\na=b\ndatastore=CLASSIFIED\n"},
		{"/flagz", "*/*", 200, "\napiserver flagz\n"},
		{"/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz", 200,
			`{"kind":"Flagz","apiVersion":"config.k8s.io/v1beta1","metadata":{"name":"apiserver"},"flags":{"a":"b","datastore":"CLASSIFIED"}}`},
		{"/flagz", "application/yaml;g=config.k8s.io;v=v1alpha1;as=Flagz", 200, "flags:\n  a: b\n"},
		{"/flagz", "application/json", 406, refused},
		{"/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", 406, refused},
		{"/flagz", "application/vnd.kubernetes.protobuf;g=config.k8s.io;v=v1beta1;as=Flagz", 406, refused},
		{"/statusz", "text/plain", 200, "Paths: /flagz /healthz /livez /metrics /readyz /statusz /version\n"},
		{"/statusz", "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", 200,
			fmt.Sprintf(`"binaryVersion":"%s","emulationVersion":"%d.%d",`, strings.TrimPrefix(upstream.Release, "v"), upstream.Major, upstream.Minor) +
				`"paths":["/flagz","/healthz","/livez","/metrics","/readyz","/statusz","/version"]}`},
	} {
		r := httptest.NewRequest(http.MethodGet, test.path, nil)
		r.Header.Set("Authorization", "known")
		if test.accept != "" {
			r.Header.Set("Accept", test.accept)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s as %q: %d %s", test.path, test.accept, w.Code, w.Body)
		}
		_, parameters, _ := strings.Cut(test.accept, ";")
		if got := w.Header().Get("Content-Type"); test.code == 200 && parameters != "" && got != test.accept {
			t.Errorf("%s as %q: Content-Type %s", test.path, test.accept, got)
		}
		if got := w.Header().Get("Warning") != ""; got != strings.Contains(test.accept, "v1alpha1") {
			t.Errorf("%s as %q: a warning: %v", test.path, test.accept, got)
		}
	}
	if w := get(h, "/flagz", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("an anonymous client gets %d", w.Code)
	}
}

// gates enables and disables some feature gates.
func gates(t *testing.T, set map[string]bool) func(*server.Config) {
	t.Helper()
	all := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := all.SetFromMap(set); err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.Features, c.Flags = all, map[string]string{"a": "b"} }
}

// The pages support CBOR if objects do, and do not exist if their gates are off.
func TestZPagesByGates(t *testing.T) {
	ask := func(h http.Handler, path, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "known")
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	with := newServer(t, gates(t, map[string]bool{"CBORServingAndStorage": true})).Handler()
	for path, kind := range map[string]string{"/flagz": "Flagz", "/statusz": "Statusz"} {
		accept := "application/cbor;g=config.k8s.io;v=v1beta1;as=" + kind
		w := ask(with, path, accept)
		var got map[string]any
		if err := direct.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Content-Type") != accept || got["kind"] != kind || got["apiVersion"] != "config.k8s.io/v1beta1" {
			t.Errorf("%s: %d %v %v %v", path, w.Code, w.Header(), got, err)
		}
		if w := ask(with, path, "application/cbor"); w.Code != 406 || !strings.Contains(w.Body.String(), "application/json, application/yaml, text/plain, application/cbor") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	without := newServer(t, gates(t, map[string]bool{"ComponentFlagz": false, "ComponentStatusz": false})).Handler()
	for _, path := range []string{"/flagz", "/statusz"} {
		if w := ask(without, path, ""); w.Code != 404 {
			t.Errorf("%s without its gate: %d %s", path, w.Code, w.Body)
		}
	}
	if paths := ask(without, "/", "").Body.String(); strings.Contains(paths, "flagz") || strings.Contains(paths, "statusz") {
		t.Errorf("the index has %s", paths)
	}
}
