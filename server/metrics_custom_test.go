package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// What is compiled of schemas of custom resources is counted by kind.
func TestCompiledSchemasAreCounted(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true)) // without them, nothing makes a plan or closures
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
