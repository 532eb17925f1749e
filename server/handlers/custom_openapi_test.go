package handlers_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/openapi"
)

// The OpenAPI documents of published definitions are identical, whether the fast path or upstream's builders make them.
func TestOpenAPIOfPublishedDefinitions(t *testing.T) {
	a := newAPI(t)
	published, err := harness.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range published {
		text, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		a.run(exchange{do: "POST " + definitions, body: string(text), code: 201})
	}
	document := func(path string, fast bool) *httptest.ResponseRecorder {
		t.Helper()
		defer fastpath.OpenAPI.Turn(fast)()
		w := httptest.NewRecorder()
		openapi.New(a.registry, false).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return w
	}
	before := fastpath.OpenAPI.Fallbacks()
	paths := []string{"/openapi/v2"}
	for _, g := range a.registry.Catalog().Groups() {
		for _, v := range g.Versions {
			if slices.ContainsFunc(v.Resources, func(s *resources.Served) bool { return s.Untyped }) {
				paths = append(paths, "/openapi/v3/apis/"+g.Name+"/"+v.Version)
			}
		}
	}
	for _, path := range paths {
		fast, plain := document(path, true), document(path, false)
		if a, b := fast.Body.Bytes(), plain.Body.Bytes(); !bytes.Equal(a, b) {
			at := 0
			for at < min(len(a), len(b)) && a[at] == b[at] {
				at++
			}
			t.Errorf("%s differs at %d of %d and %d:\n%.200q\n%.200q", path, at, len(a), len(b), a[max(0, at-50):], b[max(0, at-50):])
		}
		if a, b := fast.Header().Get("ETag"), plain.Header().Get("ETag"); a != b {
			t.Errorf("%s: ETag %s and %s", path, a, b)
		}
	}
	if n := fastpath.OpenAPI.Fallbacks() - before; n > 0 {
		t.Errorf("%d documents were made the plain way", n)
	}
}
