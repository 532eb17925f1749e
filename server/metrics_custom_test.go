package server_test

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Compiled schemas of custom resources are counted by kind.
func TestCompiledSchemasAreCounted(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true)) // otherwise no plans and closures are compiled
	h := newServer(t, nil).Handler()
	post := func(path, body string) {
		r, w := httptest.NewRequest("POST", path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, r); w.Code != 201 {
			t.Fatal(w.Body)
		}
	}
	wants := func(lines ...string) {
		t.Helper()
		body := get(h, "/metrics", "master").Body.String()
		for _, line := range lines {
			if !strings.Contains(body, "\n"+line+"\n") {
				t.Errorf("there is no %s", line)
			}
		}
	}
	post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"widgets","kind":"Widget"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
			"properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.a > 1"}]}}}}}]}}`)
	wants(`rowlock_custom_resource_compiled{kind="plan"} 0`, `rowlock_custom_resource_compilations_total{kind="cel-closures"} 0`)
	post("/apis/example.com/v1/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"a":2}}`)
	wants(`rowlock_custom_resource_compiled{kind="plan"} 1`, `rowlock_custom_resource_compiled{kind="cel-closures"} 1`,
		`rowlock_custom_resource_compiled{kind="cel-programs"} 0`, `rowlock_custom_resource_compilations_total{kind="cel-closures"} 1`)
}

// CEL rules that reject an object are evaluated twice: by closures and, for the error, by upstream. They are counted once: upstream counts each
// value that rules refer to or that contains one.
func TestRefusedObjectsAreEvaluatedOnce(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	h := newServer(t, nil).Handler()
	post := func(path, body string, code int) {
		t.Helper()
		r, w := httptest.NewRequest("POST", path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, r); w.Code != code {
			t.Fatal(w.Code, w.Body)
		}
	}
	evaluations := func() int {
		t.Helper()
		_, after, found := strings.Cut(get(h, "/metrics", "master").Body.String(), "\napiserver_cel_evaluation_duration_seconds_count ")
		count, _, _ := strings.Cut(after, "\n")
		n, err := strconv.Atoi(count)
		if !found || err != nil {
			t.Fatal(count, err)
		}
		return n
	}
	post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"gauges.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"gauges","kind":"Gauge"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
			"properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.a > 1"}]}}}}}]}}`, 201)
	before := evaluations()
	post("/apis/example.com/v1/gauges", `{"apiVersion":"example.com/v1","kind":"Gauge","metadata":{"name":"a"},"spec":{"a":2}}`, 201)
	held := evaluations()
	post("/apis/example.com/v1/gauges", `{"apiVersion":"example.com/v1","kind":"Gauge","metadata":{"name":"b"},"spec":{"a":1}}`, 422)
	if refused := evaluations(); held-before != 1 || refused-held != 2 { // the object and its spec
		t.Errorf("%d for an object that is right, %d for one that is not", held-before, refused-held)
	}
}

// Requests for custom resources are counted by their methods, too. A field selector for one name makes a list a get, as kube-apiserver has it for
// custom resources only.
func TestCustomRequestLabels(t *testing.T) {
	h := newServer(t, nil).Handler()
	const boats = "/apis/example.com/v1/boats"
	for _, c := range [][3]string{
		{"POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"boats.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"boats","kind":"Boat"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`},
		{"POST", boats, `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a"}}`},
		{"PUT", boats + "/a", `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"a","labels":{"k":"v"}}}`},
		{"GET", boats + "?fieldSelector=metadata.name%3Da", ""},
		{"GET", boats, ""},
		{"DELETE", boats, ""},
	} {
		r, w := httptest.NewRequest(c[0], c[1], strings.NewReader(c[2])), httptest.NewRecorder()
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		if h.ServeHTTP(w, r); w.Code >= 300 && c[0] != "PUT" { // the PUT lacks a resourceVersion
			t.Fatal(c, w.Body)
		}
	}
	body := get(h, "/metrics", "master").Body.String()
	for _, c := range [][3]string{{"201", "resource", "POST"}, {"422", "resource", "PUT"}, {"200", "resource", "GET"}, {"200", "cluster", "LIST"}, {"200", "cluster", "DELETE"}} {
		wantLine(t, body, `apiserver_request_total{code="`+c[0]+`",component="apiserver",dry_run="",group="example.com",resource="boats",scope="`+c[1]+
			`",subresource="",verb="`+c[2]+`",version="v1"} 1`)
	}
}
