package custom

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// upstreams is upstream's validation of definitions.
func upstreams(now, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	if old == nil {
		return validation.ValidateCustomResourceDefinition(context.Background(), now)
	}
	return validation.ValidateCustomResourceDefinitionUpdate(context.Background(), now, old)
}

func validDefinition() *apiextensions.CustomResourceDefinition {
	no := false
	schema := func(kind string) *apiextensions.CustomResourceValidation {
		var value apiextensions.JSON = map[string]any{"a": []any{int64(1), "x", true, nil, 1.5}}
		yes := true
		return &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
			"spec": {Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
				"size": {Type: kind},
				"free": {Type: "object", XPreserveUnknownFields: &yes, Default: &value},
			}, XValidations: apiextensions.ValidationRules{{Rule: "has(self.size)"}}},
		}}}
	}
	crd := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensions.NamespaceScoped, PreserveUnknownFields: &no, Version: "v1",
		Names: apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Storage: true, Schema: schema("integer"), SelectableFields: []apiextensions.SelectableField{{JSONPath: ".spec.size"}}},
			{Name: "v2", Served: true, Schema: schema("string")},
		},
		Conversion: &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
	}}
	crd.Name, crd.Status.StoredVersions, crd.ResourceVersion = "widgets.example.com", []string{"v1"}, "1"
	return crd
}

type change struct {
	name string
	do   func(crd *apiextensions.CustomResourceDefinition)
}

// schemaChange changes the schema of spec in the first version.
func schemaChange(name string, do func(s *apiextensions.JSONSchemaProps)) change {
	return change{name, func(crd *apiextensions.CustomResourceDefinition) {
		properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		s := properties["spec"]
		do(&s)
		properties["spec"] = s
	}}
}

func changes() []change {
	type definition = apiextensions.CustomResourceDefinition
	return []change{
		{"nothing", func(*definition) {}},
		{"renamed", func(crd *definition) { crd.Spec.Group, crd.Name = "other.com", "widgets.other.com" }},
		{"another name", func(crd *definition) { crd.Name = "gadgets.example.com" }},
		{"a group without a dot", func(crd *definition) { crd.Spec.Group, crd.Name = "example", "widgets.example" }},
		{"no kind", func(crd *definition) { crd.Spec.Names.Kind = "" }},
		{"another scope", func(crd *definition) { crd.Spec.Scope = apiextensions.ClusterScoped }},
		{"no scope", func(crd *definition) { crd.Spec.Scope = "" }},
		{"no stored version", func(crd *definition) { crd.Status.StoredVersions = nil }},
		{"two stored versions", func(crd *definition) { crd.Spec.Versions[1].Storage = true }},
		{"a version less", func(crd *definition) { crd.Spec.Versions = crd.Spec.Versions[:1] }},
		{"no schema", func(crd *definition) { crd.Spec.Versions[1].Schema = nil }},
		{"the same schemas", func(crd *definition) { crd.Spec.Versions[1].Schema = crd.Spec.Versions[0].Schema.DeepCopy() }},
		{"an unknown field to select by", func(crd *definition) { crd.Spec.Versions[0].SelectableFields[0].JSONPath = ".spec.none" }},
		{"a column of no type", func(crd *definition) {
			crd.Spec.Versions[0].AdditionalPrinterColumns = []apiextensions.CustomResourceColumnDefinition{{Name: "C", Type: "none", JSONPath: ".spec"}}
		}},
		{"an unknown conversion", func(crd *definition) { crd.Spec.Conversion.Strategy = "Magic" }},
		{"a warning without deprecation", func(crd *definition) { w := "w"; crd.Spec.Versions[0].DeprecationWarning = &w }},
		{"preserves unknown fields", func(crd *definition) { yes := true; crd.Spec.PreserveUnknownFields = &yes }},
		schemaChange("a type that is none", func(s *apiextensions.JSONSchemaProps) { s.Type = "thing" }),
		schemaChange("no type", func(s *apiextensions.JSONSchemaProps) { s.Type = "" }),
		schemaChange("a rule that is none", func(s *apiextensions.JSONSchemaProps) { s.XValidations[0].Rule = "self.none" }),
		schemaChange("another rule", func(s *apiextensions.JSONSchemaProps) { s.XValidations[0].Rule = "self.size > 1" }),
		schemaChange("a description", func(s *apiextensions.JSONSchemaProps) { s.Description = "d" }),
		schemaChange("a bound", func(s *apiextensions.JSONSchemaProps) {
			size, n := s.Properties["size"], 3.0
			size.Minimum = &n
			s.Properties["size"] = size
		}),
		schemaChange("another default", func(s *apiextensions.JSONSchemaProps) {
			var value apiextensions.JSON = map[string]any{"a": []any{int64(2)}}
			free := s.Properties["free"]
			free.Default = &value
			s.Properties["free"] = free
		}),
		schemaChange("a default of another type", func(s *apiextensions.JSONSchemaProps) {
			var value apiextensions.JSON = "text"
			free := s.Properties["free"]
			free.Default = &value
			s.Properties["free"] = free
		}),
	}
}

// A definition is refused for the same reasons as by upstream's validation alone, as a new one or as an update, whatever was
// validated before.
func TestValidatedAgrees(t *testing.T) {
	defer fastpath.Definitions.Turn(true)()
	var v validated
	var all []*apiextensions.CustomResourceDefinition
	for _, c := range changes() {
		crd := validDefinition()
		c.do(crd)
		all = append(all, crd)
	}
	compare := func(what string, now, old *apiextensions.CustomResourceDefinition) {
		t.Helper()
		for range 2 {
			got, want := fmt.Sprint(v.validate(now.DeepCopy(), old, upstreams)), fmt.Sprint(upstreams(now, old))
			if got != want {
				t.Errorf("%s: %s\nwant %s", what, got, want)
			}
		}
	}
	for i, c := range changes() {
		compare(c.name, all[i], nil)
	}
	for i, from := range changes() {
		for j, to := range changes() {
			compare(from.name+", then "+to.name, all[j], all[i])
		}
	}
}

// FuzzValidated: a definition has the same result as by upstream, whatever was validated before, and in whatever order.
func FuzzValidated(f *testing.F) {
	for _, seed := range [][]byte{{0, 0, 0, 0, 0, 0}, {0, 1, 0, 2, 1, 0, 0, 3, 2}, {1, 2, 3, 3, 2, 1, 1, 2, 3}, {7, 8, 0, 8, 7, 7, 0, 0, 8}} {
		f.Add(seed)
	}
	all := changes()
	f.Fuzz(func(t *testing.T, choices []byte) {
		defer fastpath.Definitions.Turn(true)()
		var v validated
		var last *apiextensions.CustomResourceDefinition
		for ; len(choices) >= 3; choices = choices[3:] {
			now, old := validDefinition(), last
			for _, choice := range choices[:2] {
				func() {
					defer func() { _ = recover() }() // the change before may have removed what this one changes
					all[int(choice)%len(all)].do(now)
				}()
			}
			if choices[2]%2 == 0 {
				old = nil
			}
			got, want := fmt.Sprint(v.validate(now.DeepCopy(), old, upstreams)), fmt.Sprint(upstreams(now, old))
			if got != want {
				t.Errorf("%q and %q: %s\nwant %s", all[int(choices[0])%len(all)].name, all[int(choices[1])%len(all)].name, got, want)
			}
			last = now
		}
	})
}

// A definition that differs from a valid one in names alone, and an update without a change, are not validated as a whole.
func TestValidatedIsUsed(t *testing.T) {
	defer fastpath.Definitions.Turn(true)()
	var v validated
	first := validDefinition()
	if errs := v.validate(first, nil, upstreams); len(errs) > 0 {
		t.Fatal(errs)
	}
	renamed := validDefinition()
	renamed.Spec.Group, renamed.Name = "other.com", "widgets.other.com"
	before := fastpath.Definitions.Fallbacks()
	for _, old := range []*apiextensions.CustomResourceDefinition{nil, renamed.DeepCopy()} {
		if errs := v.validate(renamed, old, upstreams); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	if n := fastpath.Definitions.Fallbacks() - before; n != 0 {
		t.Errorf("%d were validated whole", n)
	}
}

// Specs that differ in more than group and names have different keys, and keys do not depend on the order of maps.
func TestSpecKey(t *testing.T) {
	keys := map[[32]byte]string{}
	same := []string{"renamed", "another name", "a group without a dot", "no kind", "no stored version"}
	want := specKey(nil, validDefinition())
	for _, c := range changes()[1:] {
		crd := validDefinition()
		c.do(crd)
		key := specKey(nil, crd)
		if slices.Contains(same, c.name) {
			if key != want {
				t.Errorf("%s is another spec", c.name)
			}
			continue
		}
		if other := keys[key]; other != "" || key == want {
			t.Errorf("%s is the same as %q", c.name, other)
		}
		keys[key] = c.name
	}
	for range 20 {
		if specKey(nil, validDefinition()) != want {
			t.Fatal("the same spec has two keys")
		}
	}
}

// The memory is bounded: the oldest entry is dropped first.
func TestValidatedHasABound(t *testing.T) {
	var v validated
	key := func(i int) [32]byte { return [32]byte{byte(i), byte(i >> 8)} }
	for i := range recentRoom + 3 {
		v.Add(key(i))
		v.Add(key(i))
	}
	if len(v.values) != recentRoom || len(v.order) != recentRoom || v.Has(key(2)) || !v.Has(key(3)) || !v.Has(key(recentRoom+2)) {
		t.Errorf("%d are remembered", len(v.values))
	}
}
