// Package untypedtest has a kind without a Go type, for tests of behaviour while kinds come and go.
package untypedtest

import (
	"context"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/untyped"
)

// Group is the group of the toys.
const Group = "toys.example.org"

// Version describes a version of the kind Toy. It has two, each with its own rules: v1 has spec.color and spec.price; v2 calls
// the color a paint, shows no price in tables, and warns. Objects are stored as v1.
type Version struct {
	Version string
	// Color is the name of the field of the color.
	Color   string
	Columns []apiextensionsv1.CustomResourceColumnDefinition
	// Form and Warning are fields of the type (resources.Type).
	Form, Warning string
	// Selectable are the fields that selectors may name.
	Selectable []string
	// Note is in the description of the price.
	Note string
}

// Versions are the two versions, the stored one first.
func Versions() []Version {
	return []Version{
		{Version: "v1", Color: "color", Form: "1", Selectable: []string{"spec.price"}, Columns: []apiextensionsv1.CustomResourceColumnDefinition{
			{Name: "Color", Type: "string", JSONPath: ".spec.color"}, {Name: "Price", Type: "integer", JSONPath: ".spec.price"}}},
		{Version: "v2", Color: "paint", Form: "1", Selectable: []string{"spec.price", "spec.paint"}, Warning: "toys.example.org/v2 Toy is in the making",
			Columns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Paint", Type: "string", JSONPath: ".spec.paint"}}},
	}
}

// GV is the version in its group.
func (v Version) GV() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: v.Version}
}

// Type returns a new type of the version. Errors: none, unless a column is wrong.
func (v Version) Type() (*resources.Type, error) {
	gvr := v.GV().WithResource("toys")
	kind := v.GV().WithKind("Toy")
	s := &untyped.Scheme{Kind: kind.GroupKind(), Others: builtin.Scheme, SelectableFields: v.Selectable,
		Defaults: func(_ string, toy map[string]any) {
			if spec, ok := toy["spec"].(map[string]any); ok && spec["price"] == nil {
				spec["price"] = int64(1)
			}
		},
		Conversion: func(_ context.Context, toy map[string]any, from, to string) error {
			names := map[string]string{"v1": "color", "v2": "paint"}
			if spec, ok := toy["spec"].(map[string]any); ok && spec[names[from]] != nil {
				spec[names[to]] = spec[names[from]]
				delete(spec, names[from])
			}
			return nil
		}}
	rules := customresource.NewStrategy(s, true, kind, nil, nil, nil, &apiextensions.CustomResourceSubresourceStatus{}, nil, nil)
	toy := untyped.Define(gvr, "Toy", "v1", s, rules)
	toy.ListKind, toy.ShortNames, toy.Categories = "ToyBox", []string{"ty"}, []string{"playthings"}
	toy.Form, toy.DeprecationWarning = v.Form, v.Warning
	toy.ResetFields = rules.GetResetFields()
	status := customresource.NewStatusStrategy(rules)
	toy.Subresources["status"] = &resources.Subresource{Name: "status", Verbs: []string{"get", "patch", "update"}, UpdateStrategy: status,
		ResetFields: status.GetResetFields()}
	var err error
	if toy.Table, err = tableconvertor.New(v.Columns); err != nil {
		return nil, err
	}
	toy.OpenAPI = &resources.OpenAPI{Digest: v.schema(), Schema: v.openAPI, SelectableFields: s.SelectableFields}
	toy.FieldTypes, err = fieldTypes()
	return toy, err
}

// Serve adds versions of the kind to the registry, or changes them, in one step.
func Serve(r *resources.Registry, versions ...Version) error {
	types := make([]*resources.Type, len(versions))
	for i, v := range versions {
		var err error
		if types[i], err = v.Type(); err != nil {
			return err
		}
	}
	r.Edit(func(e *resources.Edit) {
		for i, v := range versions {
			e.SetType(v.GV(), 1000, 100, types[i])
		}
	})
	return nil
}
