package openapi

import (
	"bytes"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

func registryOf(t *testing.T, config map[string]string) *resources.Registry {
	t.Helper()
	apis, err := builtin.ParseRuntimeConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Parts{APIs: apis}.Groups())
	return registry
}

var everything = map[string]string{"api/all": "true"}

// TestPreparedFilesAreFresh makes the files again from upstream's definitions, and compares their uncompressed contents.
func TestPreparedFilesAreFresh(t *testing.T) {
	byDefault, added := registryOf(t, nil), registryOf(t, everything)
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{"AllAlpha": true, "AllBeta": true})
	files, err := Prepare(openapi.GetOpenAPIDefinitions, byDefault, added, registryOf(t, everything))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".gz") {
			unpack := unpack
			if name == FileArchive {
				unpack = unpackArchive
			}
			if want, err = unpack(want); err != nil {
				t.Fatal(err)
			}
			if got, err = unpack(got); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s is stale: make generate", name)
		}
	}
}

// TestEmbeddedDefinitionsAreUpstreams compares the embedded definitions, from which other documents are built, with upstream's.
func TestEmbeddedDefinitionsAreUpstreams(t *testing.T) {
	for _, prefix := range []string{definitionsV2, definitionsV3} {
		want, err := Upstreams(openapi.GetOpenAPIDefinitions)(prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := embedded(prefix, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < 700 {
			t.Errorf("only %d definitions", len(got))
		}
		for name, d := range got {
			if diff := cmp.Diff(definitionJSON(t, want[name]), definitionJSON(t, d)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			for _, needed := range d.Dependencies {
				if _, ok := got[needed]; !ok {
					t.Errorf("%s needs %s, which is not embedded", name, needed)
				}
			}
		}
	}
}

func definitionJSON(t *testing.T, d common.OpenAPIDefinition) []string {
	t.Helper()
	data, err := d.Schema.MarshalJSON() // its extensions include the schema of version 2
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{string(data)}, d.Dependencies...)
}

// TestWhatIsServedIsWhatIsBuilt compares every document, prepared or not, with one built from upstream's definitions, and counts those that are not
// prepared.
func TestWhatIsServedIsWhatIsBuilt(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]string
		cbor   bool
		built  func(int64) bool
		gates  featuregatetesting.FeatureOverrides
	}{
		"by default":      {nil, false, func(n int64) bool { return n == 0 }, nil},
		"everything":      {everything, false, func(n int64) bool { return n == 1 }, nil}, // version 2
		"less":            {map[string]string{"batch/v1": "false", "apps/v1/deployments": "false"}, false, func(n int64) bool { return n == 2 }, nil},
		"only the core":   {map[string]string{"apiregistration.k8s.io/v1": "false", "api/ga": "false", "v1": "true"}, false, func(n int64) bool { return n == 1 }, nil},
		"another release": {map[string]string{"resource.k8s.io/v1beta1": "true"}, false, func(n int64) bool { return n == 1 }, nil},
		"features": {map[string]string{"api/ga": "false", "api/alpha": "true", "api/beta": "true"}, false, func(n int64) bool { return n > 2 },
			featuregatetesting.FeatureOverrides{"AllAlpha": true, "AllBeta": true}},
		"no enums": {map[string]string{"api/ga": "false", "apps/v1": "true"}, false, func(n int64) bool { return n > 2 },
			featuregatetesting.FeatureOverrides{genericfeatures.OpenAPIEnums: false}},
		"CBOR": {map[string]string{"api/ga": "false", "v1": "true"}, true, func(n int64) bool { return n > 2 }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, c.gates)
			registry := registryOf(t, c.config)
			h := New(registry, c.cbor)
			oracle := New(registry, c.cbor)
			oracle.definitions, oracle.anew = Upstreams(openapi.GetOpenAPIDefinitions), true
			paths := []string{pathV2, pathV3}
			for name := range h.stateOf(h.registry.Catalog()).v3 {
				paths = append(paths, pathV3+"/"+name)
			}
			slices.Sort(paths)
			for _, path := range paths {
				want, got := httptest.NewRecorder(), httptest.NewRecorder()
				oracle.ServeHTTP(want, httptest.NewRequest("GET", path, nil))
				h.ServeHTTP(got, httptest.NewRequest("GET", path, nil))
				if want.Code != 200 || got.Code != 200 || !bytes.Equal(want.Body.Bytes(), got.Body.Bytes()) {
					t.Errorf("%s: %d and %d, %d and %d bytes", path, want.Code, got.Code, want.Body.Len(), got.Body.Len())
				}
				if want, got := want.Header().Get("ETag"), got.Header().Get("ETag"); want != got {
					t.Errorf("%s: ETag %s, want %s", path, got, want)
				}
			}
			if n := h.Built(); !c.built(n) {
				t.Errorf("%d documents were built", n)
			}
		})
	}
}

// TestPreparedProtobuf compares the protobuf encoding.
func TestPreparedProtobuf(t *testing.T) {
	h := New(registryOf(t, nil), false)
	json, err := h.stateOf(h.registry.Catalog()).v2().get(newSource(h, h.registry.Catalog()), asJSON)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.packed.unpack()
	if err != nil {
		t.Fatal(err)
	}
	want, err := protobufV2(text)
	if err != nil {
		t.Fatal(err)
	}
	r, w := httptest.NewRequest("GET", pathV2, nil), httptest.NewRecorder()
	r.Header.Set("Accept", contentTypeV2)
	h.ServeHTTP(w, r)
	if !bytes.Equal(want, w.Body.Bytes()) || h.Built() != 0 {
		t.Errorf("%d bytes instead of %d, %d documents built", w.Body.Len(), len(want), h.Built())
	}
}

// TestFingerprintTellsApart changes each input of a document.
func TestFingerprintTellsApart(t *testing.T) {
	h := New(registryOf(t, nil), false)
	seen := map[string]string{}
	check := func(what string, change func(*route), version string, kinds func(*source)) {
		t.Helper()
		s := newSource(h, h.registry.Catalog())
		if kinds != nil {
			kinds(s)
		}
		all := fixedRoutes()
		change(all[2].list[0].(*route))
		f, err := s.fingerprint(version, all)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[f]; ok {
			t.Errorf("%s is taken for %s", what, other)
		}
		seen[f] = what
	}
	same := func(*route) {}
	check("the same", same, "v3", nil)
	check("version", same, "v2", nil)
	check("kinds", same, "v3", func(s *source) {
		s.known = func() *knownKinds { return &knownKinds{digest: func() string { return "other" }} }
	})
	for what, change := range map[string]func(*route){
		"method":      func(r *route) { r.method = "PUT" },
		"path":        func(r *route) { r.path += "x" },
		"operation":   func(r *route) { r.operation += "x" },
		"description": func(r *route) { r.description += "x" },
		"consumes":    func(r *route) { r.consumes = append(r.consumes, "x") },
		"produces":    func(r *route) { r.produces = append(r.produces, "x") },
		"action":      func(r *route) { r.action = "x" },
		"kind":        func(r *route) { r.action, r.kind.Kind = "x", "x" },
		"body":        func(r *route) { r.body = common.OpenAPIDefinition{} },
		"result":      func(r *route) { r.result = &common.Config{} },
		"codes":       func(r *route) { r.codes = []int{201} },
		"parameter":   func(r *route) { r.parameters = []common.Parameter{&parameter{name: "a"}} },
		"parameters":  func(r *route) { r.parameters = []common.Parameter{&parameter{name: "a"}, &parameter{name: "b"}} },
		"required":    func(r *route) { r.parameters = []common.Parameter{&parameter{name: "a", required: true}} },
		"type":        func(r *route) { r.parameters = []common.Parameter{&parameter{name: "a", dataType: "string"}} },
		"place": func(r *route) {
			r.parameters = []common.Parameter{&parameter{name: "a", kind: common.BodyParameterKind}}
		},
		"text": func(r *route) { r.parameters = []common.Parameter{&parameter{name: "a", description: "x"}} },
	} {
		check(what, change, "v3", nil)
	}
	if len(seen) < 20 {
		t.Errorf("only %d were told apart", len(seen))
	}
}

// TestExpand covers cases that do not occur in the files of this build.
func TestExpand(t *testing.T) {
	definitions := map[string]definitionText{"a": {v3: `{"x":1}`}, "b": {v3: `{}`}}
	got, err := expand("<\x01a\x02}\x01b\x02}>", definitions)
	if err != nil || string(got) != `<{"x":1}{}>` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := expand("\x01c\x02}", definitions); err == nil {
		t.Error("an unknown definition is no error")
	}
	if _, err := sections(archive, "nothing"); err == nil {
		t.Error("a section that is not there is no error")
	}
}
