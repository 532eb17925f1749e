package fieldmanager

import (
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// schemaNode is a type of a schema, its references resolved, ready for walks over sets of paths and untyped values.
// Nodes form a graph that may have cycles. For a node with several of scalar, fields and list, the value decides.
type schemaNode struct {
	scalar schema.Scalar // empty: no scalar is allowed

	isMap     bool
	mapAtomic bool
	fields    []schemaField // by name
	entry     *schemaNode   // for names not among fields; nil: nothing else is allowed

	isList     bool
	listAtomic bool
	item       *schemaNode
	keys       []schemaKey // by name; an associative list without is a set

	any bool // for sets only: every element is allowed
}

type schemaField struct {
	name    string
	element element
	node    *schemaNode
}

type schemaKey struct {
	name     string
	fallback string // the serialised default, empty if there is none
	covered  bool   // whether elements can hold the default
}

// anySet is the node of sets that are read without a schema.
var anySet = &schemaNode{any: true}

// schemaCompiler makes the nodes of the types of one schema, the named ones once.
type schemaCompiler struct {
	resolve resolver
	made    map[string]*schemaNode
}

func (p *schemaCompiler) node(ref schema.TypeRef) *schemaNode {
	if ref.NamedType == nil {
		out := &schemaNode{}
		p.fill(out, ref)
		return out
	}
	key := *ref.NamedType
	if ref.ElementRelationship != nil {
		key += "^" + string(*ref.ElementRelationship)
	}
	out, ok := p.made[key]
	if !ok {
		out = &schemaNode{}
		p.made[key] = out
		p.fill(out, ref)
	}
	return out
}

func (p *schemaCompiler) fill(out *schemaNode, ref schema.TypeRef) {
	atom, ok := p.resolve(ref)
	if !ok {
		return
	}
	if atom.Scalar != nil {
		out.scalar = *atom.Scalar
	}
	if m := atom.Map; m != nil {
		out.isMap, out.mapAtomic = true, m.ElementRelationship == schema.Atomic
		if (m.ElementType != schema.TypeRef{}) {
			out.entry = p.node(m.ElementType)
		}
		for _, f := range m.Fields {
			out.fields = append(out.fields, newSchemaField(f.Name, p.node(f.Type)))
		}
		slices.SortFunc(out.fields, func(a, b schemaField) int { return strings.Compare(a.name, b.name) })
	}
	if l := atom.List; l != nil {
		out.isList, out.listAtomic = true, l.ElementRelationship != schema.Associative
		out.item = p.node(l.ElementType)
		for _, name := range l.Keys {
			out.keys = append(out.keys, p.key(l, name))
		}
		slices.SortFunc(out.keys, func(a, b schemaKey) int { return strings.Compare(a.name, b.name) })
	}
}

func newSchemaField(name string, node *schemaNode) schemaField {
	e := "f:" + name
	return schemaField{e[2:], e, node}
}

func (p *schemaCompiler) key(l *schema.List, name string) schemaKey {
	key := schemaKey{name: name}
	if atom, ok := p.resolve(l.ElementType); ok && atom.Map != nil {
		f, _ := atom.Map.FindField(name)
		key.fallback, key.covered = serializeDefault(f.Default)
	}
	return key
}

// field finds the node of a field or entry of a map. declared is true for a field.
func (p *schemaNode) field(name string) (node *schemaNode, declared bool) {
	lo, hi := 0, len(p.fields)
	for lo < hi {
		mid := (lo + hi) / 2
		switch c := strings.Compare(p.fields[mid].name, name); {
		case c == 0:
			return p.fields[mid].node, true
		case c < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return p.entry, false
}

// leafSet reports whether sets have nothing below this type.
func (p *schemaNode) leafSet() bool {
	switch {
	case p.any:
		return false
	case p.isMap:
		return p.mapAtomic
	case p.scalar != "" || !p.isList:
		return true
	}
	return p.listAtomic
}

// child finds the node below an element of a set. next is where to start among the fields, as elements come in their
// order. ok is false for an element that does not match the schema.
func (p *schemaNode) child(e element, next int) (child *schemaNode, after int, ok bool) {
	if p.any {
		return p, 0, true
	}
	if p.isMap != (e[0] == 'f') {
		return nil, next, false
	}
	if !p.isMap {
		return p.item, next, true
	}
	for next < len(p.fields) && p.fields[next].element < e {
		next++
	}
	if next < len(p.fields) && p.fields[next].element == e {
		return p.fields[next].node, next, true
	}
	return p.entry, next, p.entry != nil
}
