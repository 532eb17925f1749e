package openapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server/openapi"
)

func toyHandler(t *testing.T) (*resources.Registry, *openapi.Handler) {
	t.Helper()
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	if err := untypedtest.Serve(registry, untypedtest.Versions()...); err != nil {
		t.Fatal(err)
	}
	return registry, openapi.New(registry, true)
}

// A type without a Go type has the same document of version 3 as upstream's for the custom resource, byte for byte; in version 2 it is among all
// others.
func TestUntypedIsDescribedAsCustomResources(t *testing.T) {
	_, h := toyHandler(t)
	crd, err := untypedtest.Definition(untypedtest.Versions()...)
	if err != nil {
		t.Fatal(err)
	}
	v2 := getJSON(t, h, "/openapi/v2")
	for _, v := range untypedtest.Versions() {
		root := "apis/toys.example.org/" + v.Version
		theirs, err := builder.BuildOpenAPIV3(crd, v.Version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			t.Fatal(err)
		}
		want, err := theirs.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(parse(t, want), getJSON(t, h, "/openapi/v3/"+root)); diff != "" {
			t.Errorf("version 3 of %s (-upstream +rowlock):\n%s", v.Version, diff)
		}
		theirs2, err := builder.BuildOpenAPIV2(crd, v.Version, builder.Options{V2: true, IncludeSelectableFields: true})
		if err != nil {
			t.Fatal(err)
		}
		if want, err = theirs2.MarshalJSON(); err != nil {
			t.Fatal(err)
		}
		compareParts(t, parse(t, want), v2, "paths", "definitions")
	}
	index := section(getJSON(t, h, "/openapi/v3"), "paths")
	if index["apis/toys.example.org"] != nil || index["apis/toys.example.org/v1"] == nil || index["apis/apps"] == nil {
		t.Errorf("index: %v", slices.Sorted(maps.Keys(index)))
	}
}

// compareParts checks that another document contains everything in some sections of a document.
func compareParts(t *testing.T, part, whole map[string]any, sections ...string) {
	t.Helper()
	for _, name := range sections {
		for key, want := range section(part, name) {
			if strings.HasPrefix(key, "io.k8s.") {
				continue
			}
			if diff := cmp.Diff(want, section(whole, name)[key]); diff != "" {
				t.Errorf("version 2, %s %s (-upstream +rowlock):\n%s", name, key, diff)
			}
		}
	}
}

// counted serves n types in separate groups, and counts the requests for each schema.
func counted(t *testing.T, registry *resources.Registry, n int) (asked map[string]int) {
	t.Helper()
	asked = map[string]int{}
	registry.Edit(func(e *resources.Edit) {
		for i := range n {
			setCounted(t, e, fmt.Sprintf("g%d.example.org", i), asked)
		}
	})
	return asked
}

func setCounted(t *testing.T, e *resources.Edit, group string, asked map[string]int) {
	t.Helper()
	toy, err := untypedtest.Versions()[0].Type()
	if err != nil {
		t.Fatal(err)
	}
	toy.Group, toy.StorageVersion.Group = group, group
	schema := toy.OpenAPI.Schema
	toy.OpenAPI.Digest = fmt.Sprint(toy.OpenAPI.Digest, asked[group])
	toy.OpenAPI.Schema = func(v2 bool) (*spec.Schema, error) {
		asked[group]++
		return schema(v2)
	}
	e.SetType(toy.StorageVersion, 1000, 100, toy)
}

// The index of version 3 builds no document, and the cost of a change does not depend on the number of types.
func TestOneOfManyUntyped(t *testing.T) {
	registry, h := toyHandler(t)
	const many = 1000
	asked := counted(t, registry, many)
	before := section(getJSON(t, h, "/openapi/v3"), "paths")
	if h.Built() != 0 || len(asked) != 0 {
		t.Errorf("the index built %d documents, of %d schemas", h.Built(), len(asked))
	}
	get(t, h, "/openapi/v3/apis/g7.example.org/v1")
	if h.Built() != 1 || !maps.Equal(asked, map[string]int{"g7.example.org": 1}) {
		t.Errorf("a document built %d, of the schemas %v", h.Built(), asked)
	}
	summed := h.Summed()
	registry.Edit(func(e *resources.Edit) { setCounted(t, e, "g7.example.org", asked) })
	after := section(getJSON(t, h, "/openapi/v3"), "paths")
	if h.Summed() != summed+1 || h.Built() != 1 {
		t.Errorf("after one change the index looked at %d documents and built %d", h.Summed()-summed, h.Built()-1)
	}
	for name, was := range before {
		if same := cmp.Equal(was, after[name]); same == (name == "apis/g7.example.org/v1") {
			t.Errorf("%s: %v became %v", name, was, after[name])
		}
	}
	// A document is served at its URL in the index.
	url := section(getJSON(t, h, "/openapi/v3"), "paths", "apis/g7.example.org/v1")["serverRelativeURL"].(string)
	if w := get(t, h, url); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "public, immutable" {
		t.Errorf("%s: %d %v", url, w.Code, w.Header())
	}
	if h.Built() != 2 || asked["g7.example.org"] != 2 {
		t.Errorf("built %d", h.Built())
	}
}

// A change that affects a document changes its hash, and another change does not.
func TestHashOfUntyped(t *testing.T) {
	registry, h := toyHandler(t)
	hash := func() string { return urlOf(t, h, "apis/toys.example.org/v1") }
	before := hash()
	columns := untypedtest.Versions()
	columns[0].Columns = nil
	if err := untypedtest.Serve(registry, columns...); err != nil {
		t.Fatal(err)
	}
	if after := hash(); after != before {
		t.Errorf("other columns made %s of %s", after, before)
	}
	noted := untypedtest.Versions()
	noted[0].Note = "In cents."
	if err := untypedtest.Serve(registry, noted...); err != nil {
		t.Fatal(err)
	}
	if after := hash(); after == before {
		t.Error("another description has the same hash")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, before, nil))
	if w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != hash() {
		t.Errorf("under the hash of before: %d %v", w.Code, w.Header())
	}
}
