package fieldmanager

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// StoredSchemas has the schemas of custom resources as text. The Types of a Config may be one.
type StoredSchemas interface {
	// StoredSchema returns the schema of a kind without apiVersion, kind and metadata, and the schema of metadata, both as JSON of a
	// JSONSchemaProps of apiextensions.k8s.io/v1 without white space. ok is false where there is none.
	StoredSchema(kind schema.GroupVersionKind) (object, metadata string, ok bool)
}

// readStored makes the node of a kind from the texts of its schema and of the schema of metadata: the same that schemaCompiler makes from
// what kube-openapi and structured-merge-diff read. Repeated parts of a schema are read once. Nil: the schema is left to those packages.
func readStored(object, metadata string) *schemaNode {
	compiler := schemaCompiler{resolve: builtinTypes.resolve, made: map[string]*schemaNode{}}
	r := storedReader{atomic: compiler.node(smdschema.TypeRef{NamedType: &untypedAtomic.Name}), deduced: compiler.node(smdschema.TypeRef{NamedType: &untypedDeduced.Name})}
	if r.meta = r.read(metadata, false); r.meta == nil {
		return nil
	}
	return r.read(object, true)
}

type storedReader struct {
	*jsonscan.Index
	made                  map[storedKey]*schemaNode
	meta, atomic, deduced *schemaNode
}

// storedKey is the key of a node: its text, and whether unknown fields are kept within it.
type storedKey struct {
	text string
	open bool
}

func (r *storedReader) read(text string, isObject bool) *schemaNode {
	index, ok := jsonscan.NewIndex(text)
	if !ok {
		return nil
	}
	r.Index, r.made = index, map[storedKey]*schemaNode{}
	return r.node(index.Whole(), false, isObject)
}

// storedProps has the relevant members of a schema.
type storedProps struct {
	typ, format, listType, mapType string
	keys                           []string
	open, isObject                 bool
	properties, items, entry       *jsonscan.Span
}

// node reads a schema. open: unknown fields are kept here; isObject: the schema is the object's own. Nil: it is not covered.
func (r *storedReader) node(at jsonscan.Span, open, isObject bool) *schemaNode {
	key := storedKey{r.Of(at), open}
	if n := r.made[key]; n != nil && !isObject {
		return n
	}
	p := storedProps{isObject: isObject}
	if !r.Members(at, func(name string, v jsonscan.Span) bool { return r.member(&p, name, v) }) {
		return nil
	}
	p.open = p.open || open
	n := &schemaNode{}
	ok := true
	switch p.typ {
	case "":
		n.scalar = smdschema.Untyped
		ok = r.list(n, &p) && r.object(n, &p)
	case "object":
		ok = r.object(n, &p)
	case "array":
		ok = p.items != nil && r.list(n, &p)
	case "integer", "number":
		n.scalar = smdschema.Numeric
	case "boolean":
		n.scalar = smdschema.Boolean
	case "string":
		if n.scalar = smdschema.Untyped; p.format == "" || p.format == "byte" {
			n.scalar = smdschema.String
		}
	default:
		ok = false
	}
	if !ok {
		return nil
	}
	if !isObject {
		r.made[key] = n
	}
	return n
}

// member reads a member of a schema. Irrelevant members are ignored.
func (r *storedReader) member(p *storedProps, name string, at jsonscan.Span) bool {
	switch name {
	case "type":
		return r.text(at, &p.typ)
	case "format":
		return r.text(at, &p.format)
	case "x-kubernetes-list-type":
		return r.text(at, &p.listType) && p.listType != ""
	case "x-kubernetes-map-type":
		return r.text(at, &p.mapType) && p.mapType != ""
	case "x-kubernetes-list-map-keys":
		return r.Elements(at, func(v jsonscan.Span) bool {
			p.keys = append(p.keys, "")
			return r.text(v, &p.keys[len(p.keys)-1])
		})
	case "x-kubernetes-preserve-unknown-fields":
		p.open = r.Of(at) == "true"
		return p.open
	case "x-kubernetes-embedded-resource":
		p.isObject = r.Of(at) == "true"
		return p.isObject
	case "properties":
		p.properties = &at
	case "items":
		p.items = &at
		return strings.HasPrefix(r.Of(at), "{")
	case "additionalProperties":
		p.entry = &at
	case "$ref", "id", "$schema", "patternProperties", "dependencies", "additionalItems", "definitions":
		return false
	}
	return true
}

func (r *storedReader) text(at jsonscan.Span, into *string) (ok bool) {
	s := jsonscan.New([]byte(r.Of(at)))
	*into, ok = s.Text()
	return ok
}

// object reads the members for objects (schemaconv's parseObject).
func (r *storedReader) object(n *schemaNode, p *storedProps) bool {
	n.isMap, n.mapAtomic = true, p.mapType == "atomic"
	if p.mapType != "" && p.mapType != "atomic" && p.mapType != "granular" {
		return false
	}
	if p.properties != nil && !r.Members(*p.properties, func(name string, v jsonscan.Span) bool {
		if p.isObject && (name == "apiVersion" || name == "kind" || name == "metadata") {
			return true // set below
		}
		child := r.node(v, p.open, false)
		n.fields = append(n.fields, newSchemaField(name, child))
		return child != nil
	}) {
		return false
	}
	if p.isObject {
		n.fields = append(n.fields, newSchemaField("apiVersion", stringNode), newSchemaField("kind", stringNode), newSchemaField("metadata", r.meta))
	}
	slices.SortFunc(n.fields, func(a, b schemaField) int { return strings.Compare(a.name, b.name) })
	switch entry := p.entryText(r); {
	case entry == "" && (p.open || len(n.fields) == 0), entry == "true":
		n.entry = r.deduced
	case entry == "" || entry == "false":
	default:
		n.entry = r.node(*p.entry, p.open, false)
		return n.entry != nil
	}
	return true
}

// stringNode is the node of apiVersion and kind.
var stringNode = &schemaNode{scalar: smdschema.String}

func (p *storedProps) entryText(r *storedReader) string {
	if p.entry == nil {
		return ""
	}
	return r.Of(*p.entry)
}

// list reads the members for lists (schemaconv's parseList).
func (r *storedReader) list(n *schemaNode, p *storedProps) bool {
	n.isList, n.item = true, r.atomic
	if p.items != nil {
		if n.item = r.node(*p.items, p.open, false); n.item == nil {
			return false
		}
	}
	switch p.listType {
	case "", "atomic":
		n.listAtomic = true
	case "set":
	case "map":
		for _, name := range p.keys {
			n.keys = append(n.keys, schemaKey{name: name})
			if !r.key(&n.keys[len(n.keys)-1], n.item, p.items) {
				return false
			}
		}
		slices.SortFunc(n.keys, func(a, b schemaKey) int { return strings.Compare(a.name, b.name) })
		return len(p.keys) > 0
	default:
		return false
	}
	return true
}

// key reads the default of a key of the items of a list.
func (r *storedReader) key(k *schemaKey, item *schemaNode, items *jsonscan.Span) bool {
	if !item.isMap {
		return true
	}
	k.covered = true
	if items == nil {
		return true
	}
	var fallback any
	read := func(name string, v jsonscan.Span) bool {
		return name != "default" || kjson.UnmarshalCaseSensitivePreserveInts([]byte(r.Of(v)), &fallback) == nil
	}
	if !r.Members(*items, func(name string, v jsonscan.Span) bool {
		switch name {
		case "x-kubernetes-embedded-resource":
			return false // keys may be fields of its kind
		case "properties":
			return r.Members(v, func(name string, v jsonscan.Span) bool { return name != k.name || r.Members(v, read) })
		}
		return true
	}) {
		return false
	}
	k.fallback, k.covered = serializeDefault(fallback)
	return true
}
