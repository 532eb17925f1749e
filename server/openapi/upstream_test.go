package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/openapi"
)

func builtinHandler() *openapi.Handler {
	reg := resources.NewRegistry()
	reg.SetGroups(builtin.Groups())
	return openapi.New(reg, false)
}

// upstreamSpec reads one of the documents that upstream publishes: those of a server with every group and every feature enabled, except enums, and
// without authentication.
func upstreamSpec(t *testing.T, name string) (map[string]any, bool) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec", name))
	if os.IsNotExist(err) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return common(parse(t, data)).(map[string]any), true
}

func parse(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%v in %.100s", err, data)
	}
	return v
}

func get(t *testing.T, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func getJSON(t *testing.T, h http.Handler, path string) map[string]any {
	t.Helper()
	w := get(t, h, path)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return parse(t, w.Body.Bytes())
}

// common removes from a document the differences due to feature gates: enums, with their descriptions, and CBOR.
func common(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["enum"].([]any); ok {
			delete(v, "enum")
		}
		for k, e := range v {
			v[k] = common(e)
			if strings.Contains(k, "cbor") {
				delete(v, k)
			}
		}
		if d, ok := v["description"].(string); ok {
			if i := strings.Index(d, "Possible enum values:"); i >= 0 {
				v["description"] = strings.TrimSpace(d[:i])
			}
		}
	case []any:
		for i, e := range v {
			v[i] = common(e)
		}
		return slices.DeleteFunc(v, func(e any) bool {
			s, ok := e.(string)
			return ok && strings.Contains(s, "cbor")
		})
	}
	return v
}

func section(doc map[string]any, path ...string) map[string]any {
	for _, p := range path {
		doc, _ = doc[p].(map[string]any)
	}
	return doc
}

func TestV3IsUpstreams(t *testing.T) {
	h := builtinHandler()
	compared := 0
	for name := range section(getJSON(t, h, "/openapi/v3"), "paths") {
		want, ok := upstreamSpec(t, filepath.Join("v3", strings.ReplaceAll(name, "/", "__")+"_openapi.json"))
		if !ok {
			continue
		}
		compared++
		t.Run(name, func(t *testing.T) {
			got := common(getJSON(t, h, "/openapi/v3/"+name)).(map[string]any)
			for _, part := range [][]string{{"paths"}, {"components", "schemas"}} {
				want, got := section(want, part...), section(got, part...)
				for _, key := range keysOf(want, got) {
					if diff := cmp.Diff(want[key], got[key]); diff != "" {
						t.Errorf("%s: %s", key, diff)
					}
				}
			}
		})
	}
	if compared < 40 {
		t.Errorf("only %d documents compared", compared)
	}
}

func keysOf(a, b map[string]any) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// notServed tells whether a path is of a version that kube-apiserver does not serve by default.
func notServed(path string) bool {
	elements := strings.Split(path, "/")
	return strings.HasPrefix(path, "/logs") || len(elements) > 3 && elements[1] == "apis" &&
		(strings.Contains(elements[3], "alpha") || strings.Contains(elements[3], "beta")) ||
		strings.HasPrefix(path, "/apis/internal.apiserver.k8s.io/") || strings.HasPrefix(path, "/apis/lifecycle.k8s.io/")
}

// withoutUnserved removes from a definition the kinds in groups that kube-apiserver registers only to call webhooks and for disabled features: no
// document of version 2 or 3 refers to them.
func withoutUnserved(definition any) any {
	d := definition.(map[string]any)
	if kinds, ok := d["x-kubernetes-group-version-kind"].([]any); ok {
		d["x-kubernetes-group-version-kind"] = slices.DeleteFunc(kinds, func(k any) bool {
			group := k.(map[string]any)["group"].(string)
			return group == "admission.k8s.io" || group == "imagepolicy.k8s.io" || group == "internal.apiserver.k8s.io"
		})
	}
	return d
}

func TestV2IsUpstreams(t *testing.T) {
	want, _ := upstreamSpec(t, "swagger.json")
	got := common(getJSON(t, builtinHandler(), "/openapi/v2")).(map[string]any)
	wantPaths, gotPaths := section(want, "paths"), section(got, "paths")
	for _, path := range keysOf(wantPaths, gotPaths) {
		if _, ours := gotPaths[path]; !ours && notServed(path) || path == "/.well-known/openid-configuration/" {
			continue
		}
		if diff := cmp.Diff(wantPaths[path], gotPaths[path]); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	for _, part := range []string{"definitions", "parameters"} {
		want, got := section(want, part), section(got, part)
		if len(got) < 40 {
			t.Errorf("only %d %s", len(got), part)
		}
		for key := range got {
			if diff := cmp.Diff(withoutUnserved(want[key]), withoutUnserved(got[key])); diff != "" {
				t.Errorf("%s %s: %s", part, key, diff)
			}
		}
	}
}
