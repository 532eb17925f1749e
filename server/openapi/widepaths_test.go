package openapi

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// These are the properties of a type that FuzzWordings chooses.
const (
	clusterScoped = 1 << iota
	withoutStatus
	withScale
	onlyRead
	selectableFields
	noLists
	version2 // compares the document of version 2, which takes twenty times as long
)

// namedType returns a type with these names and properties; nil: no definition can have such names.
func namedType(t *testing.T, group, version, kind, plural string, choice uint8) *resources.Type {
	t.Helper()
	if len(validation.IsDNS1123Subdomain(group))+len(validation.IsDNS1035Label(version))+len(validation.IsDNS1035Label(strings.ToLower(kind)))+
		len(validation.IsDNS1035Label(plural)) > 0 {
		return nil
	}
	toy, err := untypedtest.Versions()[0].Type()
	if err != nil {
		t.Fatal(err)
	}
	toy.Group, toy.Resource, toy.Kind, toy.ListKind = group, plural, kind, ""
	toy.StorageVersion.Group, toy.StorageVersion.Version = group, version
	toy.Namespaced = choice&clusterScoped == 0
	toy.OpenAPI = &resources.OpenAPI{Digest: "1", Schema: func(bool) (*spec.Schema, error) { return new(spec.Schema).Typed("object", ""), nil }}
	status := toy.Subresources["status"]
	toy.Subresources = map[string]*resources.Subresource{}
	if choice&withoutStatus == 0 {
		toy.Subresources["status"] = status
	}
	if choice&withScale != 0 {
		scale := *status
		scale.Name = "scale"
		toy.Subresources["scale"] = &scale
	}
	if choice&selectableFields != 0 {
		toy.OpenAPI.SelectableFields = []string{".spec.<colour>"}
	}
	switch {
	case choice&noLists != 0:
		toy.ServedVerbs = []string{"get"}
	case choice&onlyRead != 0:
		toy.ServedVerbs = []string{"get", "list"}
	}
	return toy
}

// documentOfTypes returns a document, made type by type or as a whole.
func documentOfTypes(registry *resources.Registry, path string, fast bool) (w *httptest.ResponseRecorder, fallbacks int64) {
	defer fastpath.OpenAPI.Turn(fast)()
	before := fastpath.OpenAPI.Fallbacks()
	w = httptest.NewRecorder()
	New(registry, false).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w, fastpath.OpenAPI.Fallbacks() - before
}

// FuzzWordings checks that operations made from a template equal those that kube-openapi makes.
func FuzzWordings(f *testing.F) {
	f.Add("example.org", "v1", "Toy", "toys", uint8(version2))
	f.Add("a.k8s.io", "v1beta1", "Ingress", "ingresses", uint8(clusterScoped|withScale|version2))
	f.Add("x", "v2alpha3", "apple", "apples", uint8(withoutStatus|withScale))
	f.Add("apimachinery.k8s.io", "get", "Status", "object", uint8(version2))
	f.Add("nobody.rowlock.internal", "v987654321", "RowlocksNobody", "rowlocksnobodies", uint8(version2))
	f.Add("list.name", "string", "List", "name", uint8(onlyRead|clusterScoped|version2))
	f.Add("example.org", "v1", "Toy", "toys", uint8(noLists))
	f.Add("example.org", "v1", "ToyList", "toylists", uint8(selectableFields|withScale))
	f.Fuzz(func(t *testing.T, group, version, kind, plural string, choice uint8) {
		registry := resources.NewRegistry()
		types := []*resources.Type{namedType(t, group, version, kind, plural, choice), namedType(t, "second."+group, version, kind+"Second", plural, choice),
			namedType(t, group, version, kind+"List", plural+"others", choice^withScale)} // its name may be that of the first type's list
		if slices.Contains(types, nil) {
			return
		}
		registry.Edit(func(e *resources.Edit) {
			for _, of := range types {
				e.SetType(of.StorageVersion, 1000, 100, of)
			}
		})
		paths := []string{pathV3 + versionPath(types[0].StorageVersion), pathV3 + versionPath(types[1].StorageVersion)}
		if choice&version2 != 0 {
			paths = append(paths, pathV2)
		}
		for _, path := range paths {
			fast, _ := documentOfTypes(registry, path, true)
			plain, _ := documentOfTypes(registry, path, false)
			if fast.Code != plain.Code || fast.Body.String() != plain.Body.String() {
				t.Errorf("%s: %d and %d\nworded %.3000s\nbuilt  %.3000s", path, fast.Code, plain.Code, fast.Body, plain.Body)
			}
		}
	})
}

// Names that could be confused are left to kube-openapi, and no others.
func TestWordedOperations(t *testing.T) {
	for group, left := range map[string]int64{"example.org": 0, "machinery.k8s.io": 0, "apimachinery.k8s.io": 1} {
		registry := resources.NewRegistry()
		toy := namedType(t, group, "v1", "Toy", "toys", withScale)
		registry.Edit(func(e *resources.Edit) { e.SetType(toy.StorageVersion, 1000, 100, toy) })
		w, fallbacks := documentOfTypes(registry, pathV2, true)
		if w.Code != 200 || fallbacks != 1+left { // the document of everything else is not prepared
			t.Errorf("%s: %d, %d left to kube-openapi", group, w.Code, fallbacks-1)
		}
		if w, fallbacks = documentOfTypes(registry, pathV3+versionPath(toy.StorageVersion), true); w.Code != 200 || fallbacks != left {
			t.Errorf("version 3 of %s: %d, %d left to kube-openapi", group, w.Code, fallbacks)
		}
	}
}
