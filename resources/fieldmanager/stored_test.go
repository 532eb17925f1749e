package fieldmanager

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources/fastpath"
)

const metadataOfTest = `{"type":"object","properties":{"labels":{"type":"object","additionalProperties":{"type":"string","default":""}},` +
	`"finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},"managedFields":{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"atomic"},` +
	`"ownerReferences":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["uid"],"items":{"type":"object","x-kubernetes-map-type":"atomic",` +
	`"properties":{"uid":{"type":"string"}}}},"name":{"type":"string"}}}`

// withObjects adds to a schema what package custom adds to it: the fields of objects, and of objects within them.
func withObjects(s *spec.Schema, whole bool) {
	for name, property := range s.Properties {
		withObjects(&property, false)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		withObjects(s.Items.Schema, false)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		withObjects(s.AdditionalProperties.Schema, false)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); whole || embedded {
		s.SetProperty("apiVersion", *spec.StringProperty()).SetProperty("kind", *spec.StringProperty())
		s.SetProperty("metadata", *spec.RefSchema("#/components/schemas/Meta"))
	}
}

// readByUpstream is the result of upstream's packages for a schema; nil: it is invalid. text is its stored form.
func readByUpstream(t *testing.T, sent string) (text string, n *schemaNode) {
	t.Helper()
	var written, stored apiextensionsv1.JSONSchemaProps
	props := &apiextensions.JSONSchemaProps{}
	if json.Unmarshal([]byte(sent), &written) != nil || apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&written, props, nil) != nil ||
		apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(props, &stored, nil) != nil {
		return "", nil
	}
	data, err := json.Marshal(stored)
	if err != nil {
		return "", nil
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil || structural.Type != "object" {
		return "", nil
	}
	object, meta := structural.Unfold().ToKubeOpenAPI(), &spec.Schema{}
	withObjects(object, true)
	if err := json.Unmarshal([]byte(metadataOfTest), meta); err != nil {
		t.Fatal(err)
	}
	object.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": widgetV1.Group, "version": widgetV1.Version, "kind": widgetV1.Kind}})
	types, err := managedfields.NewTypeConverter(map[string]*spec.Schema{"Meta": meta, "Widget": object}, false)
	if err != nil {
		return string(data), nil
	}
	defer fastpath.CustomPlans.Turn(false)()
	out := &kindTypes{}
	if err := (Config{Kind: widgetV1, Types: types}).readCustomKind(out); err != nil {
		t.Fatal(err)
	}
	return string(data), out.schema
}

// schemasOfFields have every feature that field ownership depends on; those after the comment below are not covered.
var schemasOfFields = []string{
	`{"type":"object","description":"d","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"},"d":{"type":"number"},"e":{"x-kubernetes-int-or-string":true},
		"f":{"type":"string","format":"date-time"},"g":{"type":"string","format":"byte"},"h":{"type":"object"},"i":{"type":"object","additionalProperties":{"type":"array","items":{"type":"string"}}},
		"j":{"type":"object","additionalProperties":true,"x-kubernetes-map-type":"granular"},"k":{"type":"object","properties":{"a":{"type":"string"}},"x-kubernetes-map-type":"atomic"}}}`,
	`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}},"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
		"m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["b","a","c"],"items":{"type":"object","properties":{"a":{"type":"string","default":"x"},
			"b":{"type":"integer","default":2},"c":{"type":"number","default":1.5},"d":{"type":"array","x-kubernetes-list-type":"atomic","items":{}}}}}}}`,
	`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"object","properties":{"b":{"type":"object","properties":{"c":{"type":"string"}}}}},
		"n":{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true}}}}`,
	`{"type":"object","properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},"o":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"f":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object","properties":{"x":{"type":"string"}}},"kind":{"type":"integer"}}},"p":{"type":"object","properties":{"x":{"type":"string"}}}}}`,
	`{"type":"object","properties":{"a":{"type":"object","additionalProperties":false},"b":{},"c":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"string"}}}}`,
	// not covered
	`{"type":"object","properties":{"m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["kind"],"items":{"type":"object","x-kubernetes-embedded-resource":true}}}}`,
	`{"type":"object","properties":{"a":{"type":"array"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{},"x-kubernetes-list-type":"map"}}}`,
}

const coveredSchemasOfFields = 5

// FuzzStoredSchema: the node made from the text of a schema is equal to the node made from what upstream's packages
// read.
func FuzzStoredSchema(f *testing.F) {
	for _, s := range schemasOfFields {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		text, want := readByUpstream(t, sent)
		if text == "" {
			return
		}
		if got := readStored(text, metadataOfTest); got != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\nfrom the text %s\nby upstream %s", text, shown(got, 6), shown(want, 6))
		}
	})
}

// shown is a node as text, down to a depth.
func shown(n *schemaNode, depth int) string {
	if n == nil || depth == 0 {
		return "-"
	}
	out := string(n.scalar)
	if n.isMap {
		out += "{"
		for _, f := range n.fields {
			out += f.name + ":" + shown(f.node, depth-1) + " "
		}
		out += "*:" + shown(n.entry, depth-1) + "}"
	}
	if n.isList {
		out += "[" + shown(n.item, depth-1) + "]"
	}
	return out
}

// The usual features of definitions are read from the text.
func TestStoredSchemasAreCovered(t *testing.T) {
	for _, sent := range schemasOfFields[:coveredSchemasOfFields] {
		text, want := readByUpstream(t, sent)
		if got := readStored(text, metadataOfTest); got == nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\nfrom the text %s\nby upstream %s", text, shown(got, 6), shown(want, 6))
		}
	}
}
