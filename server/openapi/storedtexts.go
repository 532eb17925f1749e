package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// storedTexts are schemas of a document that are written as text. The builder of kube-openapi, which would copy and walk them, is given
// others that stand for them.
type storedTexts [][]byte

// standInName, and a number, is the description of what stands for a text. No schema of a Go type has it, nor one of a list.
const standInName = "rowlock.internal/schema/"

func standIn(i int) *spec.Schema {
	return new(spec.Schema).WithDescription(standInName + strconv.Itoa(i))
}

// add adds the definitions of a type whose schema is stored. It is false where they are to be made of that of kube-openapi.
func (t *storedTexts) add(src *source, definitions map[string]common.OpenAPIDefinition, s *resources.Served) bool {
	if s.OpenAPI == nil || s.OpenAPI.Stored == nil || !fastpath.OpenAPI.On() {
		return false
	}
	text, ok := (&storedWriter{definitions: definitions, prefix: definitionsV3}).write(s, nil)
	if _, kinds := src.name(string(modelOf(s, s.Type.Kind)), nil); kinds != nil {
		ok = false // it is also the name of a Go type, of which the builder says which kinds it has
	}
	if !ok {
		fastpath.OpenAPI.Fallback()
		return false
	}
	object, list := string(modelOf(s, s.Type.Kind)), string(modelOf(s, s.KindOfLists()))
	definitions[object] = common.OpenAPIDefinition{Schema: *standIn(len(*t)), Dependencies: []string{objectMeta}}
	definitions[list] = common.OpenAPIDefinition{Schema: *listSchema(definitions, s, definitionsV3), Dependencies: []string{object, listMeta}}
	*t = append(*t, text)
	return true
}

// storedWriter writes schemas that are stored as documents have them.
type storedWriter struct {
	// definitions has the untypedModels, and prefix is where a document has its definitions.
	definitions map[string]common.OpenAPIDefinition
	prefix      string
	// object and within are what describeObject and describeWithin say of every type, once that is known.
	object, within *described
	// room is for stored texts.
	room []byte
}

// write writes the schema of a type, behind what out has.
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

// describeObject is what objectSchema says of every object, but for which kind it is.
func describeObject(definitions map[string]common.OpenAPIDefinition, prefix string) (*described, error) {
	typeMeta := definitions[statusName].Schema.Properties
	schema := new(spec.Schema).SetProperty("apiVersion", typeMeta["apiVersion"]).SetProperty("kind", typeMeta["kind"]).
		SetProperty("metadata", *spec.RefSchema(prefix + objectMeta).WithDescription(metav1.PartialObjectMetadata{}.SwaggerDoc()["metadata"]))
	return describe(schema, prefix)
}

// describeWithin is what describeEmbedded says of every object within one.
func describeWithin(definitions map[string]common.OpenAPIDefinition, prefix string) (*described, error) {
	schema := new(spec.Schema)
	schema.AddExtension(embeddedExtension, true)
	describeEmbedded(schema, definitions[statusName].Schema.Properties, prefix)
	return describe(schema, prefix)
}

// describe takes out of a schema what storedSchema needs of it.
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

// identify takes the extensions of a schema.
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

// marshalerOf writes JSON as documents of a version have it.
func marshalerOf(prefix string) func(any) ([]byte, error) {
	if prefix == definitionsV2 {
		return marshalV2
	}
	return json.Marshal
}

// marshalV2 is json.Marshal without escapes for the sake of HTML, which documents of version 2 have not.
func marshalV2(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// fill puts the texts into a document in place of what stands for them.
func (t storedTexts) fill(document []byte) []byte {
	if len(t) == 0 {
		return document
	}
	size := len(document)
	for _, text := range t {
		size += len(text)
	}
	const standIn = `{"description":"` + standInName
	out := make([]byte, 0, size)
	for rest := document; ; {
		before, after, found := bytes.Cut(rest, []byte(standIn))
		out = append(out, before...)
		if !found {
			return out
		}
		number, after, _ := bytes.Cut(after, []byte(`"}`))
		i, err := strconv.Atoi(string(number))
		if err != nil || i < 0 || i >= len(t) { // of a definition that has such a description itself
			rest = rest[len(before)+len(standIn):]
			out = append(out, standIn...)
			continue
		}
		out, rest = append(out, t[i]...), after
	}
}
