package openapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// storedForm is the stored form of a client's schema; false if validation would reject it.
func storedForm(sent string) (text []byte, structural func() *structuralschema.Structural, ok bool) {
	var written apiextensionsv1.JSONSchemaProps
	internal := &apiextensions.JSONSchemaProps{}
	if json.Unmarshal([]byte(sent), &written) != nil || apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&written, internal, nil) != nil {
		return nil, nil, false
	}
	var back apiextensionsv1.JSONSchemaProps
	if apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(internal, &back, nil) != nil {
		return nil, nil, false
	}
	text, err := json.Marshal(back)
	if err != nil {
		return nil, nil, false
	}
	read := func() *structuralschema.Structural {
		var again apiextensionsv1.JSONSchemaProps
		internal := &apiextensions.JSONSchemaProps{}
		if json.Unmarshal(text, &again) != nil || apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&again, internal, nil) != nil {
			return nil
		}
		s, err := structuralschema.NewStructural(internal)
		if err != nil {
			return nil
		}
		return s
	}
	return text, read, read() != nil
}

// documentsOfSchema returns a type's documents of version 3 and of version 2, made from the text of its schema or by upstream's packages.
func documentsOfSchema(t *testing.T, text []byte, structural func() *structuralschema.Structural, fast bool) (documents [2]string, fallbacks [2]int64) {
	t.Helper()
	defer fastpath.OpenAPI.Turn(fast)()
	toy, err := untypedtest.Versions()[0].Type()
	if err != nil {
		t.Fatal(err)
	}
	toy.OpenAPI.Schema = func(v2 bool) (*spec.Schema, error) {
		s := structural().Unfold()
		if v2 && s.XPreserveUnknownFields {
			return nil, nil
		} else if v2 {
			s = openapiv2.ToStructuralOpenAPIV2(s)
		}
		return s.ToKubeOpenAPI(), nil
	}
	toy.OpenAPI.Stored = func(*[]byte) ([]byte, error) { return text, nil }
	registry := resources.NewRegistry()
	registry.Edit(func(e *resources.Edit) { e.SetType(toy.StorageVersion, 1000, 100, toy) })
	for i, path := range []string{pathV3 + "/apis/toys.example.org/v1", pathV2} {
		before, w := fastpath.OpenAPI.Fallbacks(), httptest.NewRecorder()
		New(registry, false).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		documents[i], fallbacks[i] = w.Body.String(), fastpath.OpenAPI.Fallbacks()-before
	}
	return documents, fallbacks
}

// schemasOfAllKinds has every member of schemas; the second half is left to upstream.
var schemasOfAllKinds = []string{
	`{"type":"object"}`,
	`{"type":"object","description":"a \"<b>\" & \\ \n é \u2028 😀","title":"t","properties":{"a":{"type":"string","nullable":true,"pattern":"^a+$","format":"date","maxLength":3,"minLength":1},
		"b":{"type":"integer","maximum":10,"exclusiveMaximum":true,"minimum":-1.5,"exclusiveMinimum":true,"multipleOf":2,"default":3,"enum":[1,2,null,3.25]},
		"kind":{"type":"string","maxLength":3},"z":{"type":"object","additionalProperties":{"type":"array","maxItems":2,"minItems":1,"uniqueItems":true,"items":{"type":"boolean","default":false}}}}}`,
	`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}},"x":{"x-kubernetes-int-or-string":true},
		"y":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}],"pattern":"^a"},
		"l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object","x-kubernetes-map-type":"atomic","required":["a"],
			"properties":{"a":{"type":"string","default":""},"b":{"type":"object","default":{"a":[1,{"b":null}],"c":{}},"example":{"x":1},"externalDocs":{"description":"d","url":"u"}}}}}},
		"x-kubernetes-validations":[{"rule":"self.x == 1 && true","message":"m","messageExpression":"'a'","reason":"FieldValueInvalid","fieldPath":".x","optionalOldSelf":false}]}`,
	`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"nullable":true},
		"f":{"type":"object","x-kubernetes-embedded-resource":true,"required":["kind","spec"],"properties":{"spec":{"type":"object","properties":{
			"g":{"type":"object","x-kubernetes-embedded-resource":true,"minProperties":1,"maxProperties":9}}},"metadata":{"type":"object"},"apiVersion":{"type":"string"},"zz":{"type":"string"}}}}}`,
	`{"type":"object","oneOf":[{"required":["a"]},{"properties":{"b":{"enum":["x"]}},"additionalProperties":true,"not":{"required":["c"]}}],"allOf":[{"items":{"maxLength":2}},{}],"not":{"anyOf":[{"type":"string"}]},
		"properties":{"a":{"additionalProperties":false,"type":"object"},"b":{"additionalProperties":true,"type":"object"}}}`,
	`{"type":"object","required":["a","b","c"],"x-kubernetes-validations":[{"rule":"self.a < 1 && self.b > \"<\""}],"properties":{"a":{"type":"string","nullable":true,"default":"<&>"},
		"b":{"type":"array","nullable":true,"items":{"type":"integer"}},"c":{"type":"object","required":["d"],"additionalProperties":{"type":"string","nullable":true}},
		"l":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
		"m":{"type":"object","nullable":true,"required":["n"],"properties":{"n":{"type":"string","nullable":true}},"description":"<b> & \u2028"},
		"n":{"type":"object","required":["x"],"properties":{"x":{"x-kubernetes-int-or-string":true,"nullable":true}},"oneOf":[{"required":["x"]}],"maxProperties":2},
		"o":{"type":"object","x-kubernetes-embedded-resource":true,"nullable":true,"required":["x\"kind","kind"],"properties":{"spec":{"type":"object"}},"enum":["<"]}}}`,
	// These are left to upstream.
	`{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"pattern":"a"}]}}}`,
	`{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}]}}}`,
	`{"type":"object","example":"","default":1e30,"maximum":1e-9}`,
	`{"type":"object","properties":{"é":{"type":"string"},"a<b":{"type":"string"}}}`,
	`{"type":"object","description":"\u0007\b\f\u007f"}`,
	`{"type":"object","x-kubernetes-embedded-resource":true}`,
	`{"type":"object","allOf":[{"x-kubernetes-embedded-resource":true}]}`,
	`{"type":"object","properties":{"a":{"default":{"é":1,"b":1.50}}}}`,
}

const coveredSchemas = 6

// FuzzStoredSchema checks that a document made from the text of a schema equals that of upstream's packages.
func FuzzStoredSchema(f *testing.F) {
	for _, s := range schemasOfAllKinds {
		f.Add(s)
	}
	f.Add(strings.Repeat(`{"items":`, 120) + `{}` + strings.Repeat(`}`, 120))
	f.Fuzz(func(t *testing.T, sent string) {
		text, structural, ok := storedForm(sent)
		if !ok {
			return
		}
		all, _ := documentsOfSchema(t, text, structural, true)
		upstreams, _ := documentsOfSchema(t, text, structural, false)
		for i, fast := range all {
			plain, at := upstreams[i], 0
			for at < min(len(fast), len(plain)) && fast[at] == plain[at] {
				at++
			}
			if fast != plain {
				t.Errorf("%s\nfrom the text  %.300s\nby upstream %.300s", text, fast[max(0, at-100):], plain[max(0, at-100):])
			}
		}
	})
}

// Usual definitions are converted from their text, and nested schemas are not converted over and over again.
func TestStoredSchemasAreCovered(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"a":`, 80) + `{}` + strings.Repeat(`}}`, 80)
	for _, sent := range append(schemasOfAllKinds[:coveredSchemas:coveredSchemas], `{"type":"object","properties":{"a":`+deep+`}}`) {
		text, structural, ok := storedForm(sent)
		if !ok {
			t.Fatal("is no schema: ", sent)
		}
		if _, n := documentsOfSchema(t, text, structural, true); n != [2]int64{0, 1} { // version 2: the document of everything else is not prepared
			t.Errorf("%.200s: left to upstream: %d", text, n)
		}
	}
}
