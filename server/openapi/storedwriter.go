package openapi

import (
	"bytes"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// storedWriter converts stored schemas to those of documents.
type storedWriter struct {
	// definitions has the untypedModels, and prefix is that of the document's definitions.
	definitions map[string]common.OpenAPIDefinition
	prefix      string
	// object and within are the results of describeObject and describeWithin, once they are known.
	object, within *described
	// room is a buffer for stored texts.
	room []byte
}

// write appends the schema of a type to out.
func (t *storedWriter) write(s *resources.Served, out []byte) (text []byte, ok bool) {
	stored, err := s.OpenAPI.Stored(&t.room)
	if err != nil || len(stored) == 0 {
		return nil, false
	}
	if t.object == nil {
		if t.object, err = describeObject(t.definitions, t.prefix); err != nil {
			return nil, false
		}
		if t.within, err = describeWithin(t.definitions, t.prefix); err != nil {
			return nil, false
		}
	}
	w := storedSchema{out: slices.Grow(out, len(stored)+len(stored)/8+4<<10), v2: t.prefix == definitionsV2, embedded: t.within}
	object := *t.object
	if err := object.identify(identified(new(spec.Schema), s, s.Type.Kind), t.prefix); err != nil {
		return nil, false
	}
	w.object = &object
	ok = w.write(stored)
	return w.out, ok
}

// schema returns the schema of a type in a document of version 3.
func (t *storedWriter) schema(s *resources.Served) ([]byte, error) {
	if s.OpenAPI != nil && s.OpenAPI.Stored != nil {
		if text, ok := t.write(s, nil); ok {
			return text, nil
		}
		fastpath.OpenAPI.Fallback()
	}
	schema, err := objectSchema(t.definitions, s, t.prefix)
	if err != nil {
		return nil, err
	}
	return json.Marshal(util.WrapRefs(schema))
}

// describeObject returns what objectSchema adds to every object, except the kind.
func describeObject(definitions map[string]common.OpenAPIDefinition, prefix string) (*described, error) {
	typeMeta := definitions[statusName].Schema.Properties
	schema := new(spec.Schema).SetProperty("apiVersion", typeMeta["apiVersion"]).SetProperty("kind", typeMeta["kind"]).
		SetProperty("metadata", *spec.RefSchema(prefix + objectMeta).WithDescription(metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]))
	return describe(schema, prefix)
}

// describeWithin returns what describeEmbedded adds to every embedded resource.
func describeWithin(definitions map[string]common.OpenAPIDefinition, prefix string) (*described, error) {
	schema := new(spec.Schema)
	schema.AddExtension(embeddedExtension, true)
	describeEmbedded(schema, definitions[statusName].Schema.Properties, prefix)
	return describe(schema, prefix)
}

// describe extracts from a schema what storedSchema needs.
func describe(schema *spec.Schema, prefix string) (d *described, err error) {
	if prefix == definitionsV2 {
		schema = handler.PruneDefaultsSchema(schema)
	} else {
		schema = util.WrapRefs(schema)
	}
	d = &described{}
	for i, name := range ownNames {
		if d.properties[i], err = marshalerOf(prefix)(schema.Properties[name]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// identify extracts the extensions of a schema.
func (d *described) identify(schema *spec.Schema, prefix string) (err error) {
	for name, into := range map[string]*[]byte{extensionKind: &d.kind, extensionSelectable: &d.selectable} {
		if value, there := schema.Extensions[name]; there {
			if *into, err = marshalerOf(prefix)(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// marshalerOf returns the JSON encoder for documents of a version.
func marshalerOf(prefix string) func(any) ([]byte, error) {
	if prefix == definitionsV2 {
		return marshalV2
	}
	return json.Marshal
}

// marshalV2 is json.Marshal without escapes for HTML, which documents of version 2 do not have.
func marshalV2(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
