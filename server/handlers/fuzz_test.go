package handlers_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fieldselector "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Whatever is sent, the server responds, and never panics. The fuzz targets share one server each.

// answer sends a request, and fails if it panics. It skips an invalid URL.
func (a *api) answer(t *testing.T, method, target string, header says, body string) *httptest.ResponseRecorder {
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil || r.URL.Path == "" || r.URL.Path[0] != '/' {
		return nil
	}
	r.RequestURI = target
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r.WithContext(t.Context()))
	if strings.Contains(w.Body.String(), "apiserver panic'd") {
		t.Fatalf("panic on %s %q %q", method, target, body)
	}
	return w
}

func fuzzAPI(f *testing.F) *api {
	a := newAPI(f)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}`, code: 201},
		exchange{do: "POST /apis/apps/v1/namespaces/test/deployments", body: deployment, code: 201})
	// managedFields are ordered by their times, which have seconds: a request in the second of the creates and one after it would rightly have
	// different responses.
	now := time.Now()
	time.Sleep(now.Truncate(time.Second).Add(time.Second).Sub(now))
	return a
}

func FuzzPaths(f *testing.F) {
	a := fuzzAPI(f)
	for _, seed := range []string{configMaps, configMaps + "/a", "/api/v1/namespaces//configmaps/a", "/apis/apps/v1/namespaces/test/deployments/d/scale",
		"/api/v1/watch/namespaces/test", "/api/v1/namespaces/%2e%2e/pods?limit=1&continue=x", "/api/v1/nodes/x/proxy/a/b", "/apis//v1/x", "/openapi/v3/x",
		configMaps + "?fieldSelector=metadata.name%3D..&labelSelector=a%20in%20()&resourceVersion=99999999999999999999"} {
		f.Add("GET", seed)
		f.Add("DELETE", seed+"?dryRun=All")
	}
	f.Fuzz(func(t *testing.T, method, target string) {
		if method == "" || strings.Contains(target, "watch") || strings.Contains(target, "resourceVersion") {
			return // these may rightly take long
		}
		a.answer(t, method, target, nil, "")
	})
}

// A continue token gives access only to the range of its list.
func FuzzContinueTokens(f *testing.F) {
	a := fuzzAPI(f)
	for _, seed := range []string{`{"v":"meta.k8s.io/v1","rv":-1,"start":"/a\u0000"}`, `{"v":"meta.k8s.io/v1","rv":3,"start":"../kube-system/x"}`, `{}`, `[`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, token []byte) {
		var parts struct {
			Revision int64 `json:"rv"`
		}
		if _ = json.Unmarshal(token, &parts); parts.Revision > 3 {
			return // a future revision is waited for
		}
		w := a.answer(t, "GET", configMaps+"?limit=1&continue="+base64.RawURLEncoding.EncodeToString(token), nil, "")
		if w.Code == 200 && strings.Contains(w.Body.String(), `"namespace":"`) && !strings.Contains(w.Body.String(), `"namespace":"test"`) {
			t.Errorf("%s lists another namespace: %s", token, w.Body)
		}
		a.answer(t, "GET", configMaps+"?limit=1&continue="+url.QueryEscape(string(token)), nil, "")
	})
}

// A selector is rejected if upstream's parser rejects it, and otherwise selects the objects that upstream's selector matches.
func FuzzSelectors(f *testing.F) {
	a := fuzzAPI(f)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"b","labels":{"x":"z","empty":"","n":"7"}}}`, code: 201},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"c"}}`, code: 201})
	objects := map[string]labels.Set{"a": {"x": "y"}, "b": {"x": "z", "empty": "", "n": "7"}, "c": nil}
	for _, seed := range []string{"", "x", "!x", "x=y", "x==y", "x!=y", "x in (y,z)", "x notin (y)", "n>6", "n<8,x", "empty=", "x in ()", "a/b/c=d", ",", "x=y=z",
		"metadata.name=a", "metadata.name!=a", "metadata.namespace=test,metadata.name=b", `metadata.name=\=`, "spec.nodeName=x", "metadata.name"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := labels.Parse(text)
		a.selects(t, "labelSelector", text, err, objects, func(_ string, l labels.Set) bool { return selector.Matches(l) })

		byField, err := fieldselector.ParseSelector(text)
		if err == nil {
			for _, r := range byField.Requirements() {
				if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
					err = fmt.Errorf("%q is not selectable", r.Field)
				}
			}
		}
		a.selects(t, "fieldSelector", text, err, objects, func(name string, _ labels.Set) bool {
			return byField.Matches(fieldselector.Set{"metadata.name": name, "metadata.namespace": "test"})
		})
	})
}

// selects lists with a selector, and expects 400 if upstream has rejected it, and otherwise the matching objects.
func (a *api) selects(t *testing.T, parameter, text string, refused error, objects map[string]labels.Set, matches func(string, labels.Set) bool) {
	t.Helper()
	w := a.answer(t, "GET", configMaps+"?"+parameter+"="+url.QueryEscape(text), nil, "")
	if refused != nil {
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s %q: %d, but it is refused: %v", parameter, text, w.Code, refused)
		}
		return
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s %q: %d %s", parameter, text, w.Code, w.Body)
	}
	var got, want []string
	for _, item := range list.Items {
		got = append(got, item.Name)
	}
	for _, name := range []string{"a", "b", "c"} {
		if matches(name, objects[name]) {
			want = append(want, name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s %q selects %q, want %q", parameter, text, got, want)
	}
}

func FuzzPatches(f *testing.F) {
	a := fuzzAPI(f)
	types := []says{asMergePatch, asStrategicPatch, asJSONPatch, asApply}
	for i := range types {
		for _, seed := range []string{`{"data":{"k":null}}`, `[{"op":"copy","from":"","path":"/data"}]`, `{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"c"}]}}}}`,
			`{"metadata":null}`, `null`, `[null]`, `{"$patch":"replace"}`, `{"spec":{"$setElementOrder/x":[1]}}`, `{"$retainKeys":[{"name":"main"}]}`,
			"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{}]}}}"} {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, patch string) {
		header := types[int(typ)%len(types)]
		for _, path := range []string{configMaps + "/a", "/apis/apps/v1/namespaces/test/deployments/d", "/apis/apps/v1/namespaces/test/deployments/d/scale"} {
			a.answer(t, "PATCH", path+"?dryRun=All&fieldManager=m&force=true", header, patch)
		}
	})
}

func FuzzBodies(f *testing.F) {
	a := fuzzAPI(f)
	types := []says{{"Content-Type": "application/json"}, asYAML, {"Content-Type": "application/vnd.kubernetes.protobuf"}}
	for i := range types {
		for _, seed := range []string{`{"metadata":{"name":"b"}}`, "metadata: {name: b}", "k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12\x00", `null`, `{"kind":"List"}`, "{", "&a [*a]"} {
			f.Add(uint8(i), seed)
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, body string) {
		header := types[int(typ)%len(types)]
		a.answer(t, "POST", configMaps+"?dryRun=All", header, body)
		a.answer(t, "PUT", configMaps+"/a?dryRun=All", header, body)
		a.answer(t, "DELETE", configMaps+"/a?dryRun=All", header, body)
		a.answer(t, "PUT", "/apis/apps/v1/namespaces/test/deployments/d/scale?dryRun=All", header, body)
	})
}
