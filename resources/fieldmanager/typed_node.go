package fieldmanager

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/rowlock/rowlock/resources/gotype"
)

// shape determines how a node's values are compared.
type shape uint8

const (
	// unknown: a value that does not fit its schema, or whose schema the walk does not cover.
	unknown shape = iota
	// leaf: a scalar, or a struct, map or list that is owned whole.
	leaf
	// structure: a struct whose fields are owned one by one.
	structure
	// mapping: a map whose entries are owned one by one.
	mapping
	// keyed: a list of structs that have key fields.
	keyed
	// scalarSet: a list of scalars that are owned one by one.
	scalarSet
)

// typedNode says how to walk the values of one Go type under one schema. Nodes form a graph that may have cycles.
type typedNode struct {
	shape   shape
	equal   equalFunc    // for two values that both exist; set for leaves
	fields  []typedField // of a struct, by name
	elem    *typedNode   // of a map or list
	keys    []listKey    // of a keyed list, by name
	strings bool         // of a map[string]string
	// strict is set on leaves that may contain a keyed list: its items must have keys even there.
	strict bool
}

// typedField is a field of a struct.
type typedField struct {
	name    string
	element element
	index   []int
	omit    func(reflect.Value) bool // nil for a field that is never omitted
	node    *typedNode
}

// listKey is a key field of the items of a list.
type listKey struct {
	name     string
	fallback string // the serialised default, empty if there is none
	field    *typedField
}

func (f *typedField) of(v reflect.Value) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

// typedCompiler makes the nodes of the types of one schema, each once.
type typedCompiler struct {
	resolve resolver
	made    map[typedKey]*typedNode
	equal   equalities
	fresh   []*typedNode // since the last join
}

type typedKey struct {
	typ reflect.Type
	ref string // the named type, with its override
}

// join joins a Go type with a schema's type.
func (p *typedCompiler) join(t reflect.Type, ref schema.TypeRef) *typedNode {
	root := p.node(t, ref)
	for _, made := range p.fresh {
		// The keys are resolved last: the items of a list may be of a type that was unfinished when the list was
		// compiled.
		for i := range made.keys {
			key := &made.keys[i]
			for j := range made.elem.fields {
				if f := &made.elem.fields[j]; f.name == key.name {
					key.field = f
				}
			}
		}
		made.strict = made.shape == leaf && holdsKeyed(made, map[*typedNode]bool{})
	}
	p.fresh = nil
	return root
}

// holdsKeyed reports whether a keyed list can be below a node.
func holdsKeyed(p *typedNode, seen map[*typedNode]bool) bool {
	if p == nil || seen[p] {
		return false
	}
	seen[p] = true
	if len(p.keys) > 0 || holdsKeyed(p.elem, seen) {
		return true
	}
	return slices.ContainsFunc(p.fields, func(f typedField) bool { return holdsKeyed(f.node, seen) })
}

func (p *typedCompiler) node(t reflect.Type, ref schema.TypeRef) *typedNode {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	key := typedKey{typ: t}
	if ref.NamedType != nil {
		key.ref = *ref.NamedType
		if ref.ElementRelationship != nil {
			key.ref += "^" + string(*ref.ElementRelationship)
		}
		if out, ok := p.made[key]; ok {
			return out
		}
	}
	out := &typedNode{}
	p.fresh = append(p.fresh, out)
	if ref.NamedType != nil {
		p.made[key] = out // before its parts, which may refer to it
	}
	p.fill(out, t, ref)
	return out
}

func (p *typedCompiler) fill(out *typedNode, t reflect.Type, ref schema.TypeRef) {
	atom, ok := p.resolve(ref)
	if !ok {
		return
	}
	if marshals(t) {
		atomic := (atom.Map == nil || atom.Map.ElementRelationship == schema.Atomic) &&
			(atom.List == nil || atom.List.ElementRelationship == schema.Atomic)
		if scalarMarshalers[t] && atom.Scalar != nil && *atom.Scalar == schema.Untyped {
			atomic = true // such a type writes only scalars
		}
		if atomic && (atom.Map != nil || atom.Scalar != nil && *atom.Scalar != schema.Numeric && *atom.Scalar != schema.Boolean) {
			out.shape, out.equal = leaf, p.equal.of(t)
		}
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		p.fillStruct(out, t, atom.Map)
	case reflect.Map:
		p.fillMap(out, t, atom.Map)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			p.fillScalar(out, t, atom.Scalar)
		} else {
			p.fillList(out, t, atom.List)
		}
	default:
		p.fillScalar(out, t, atom.Scalar)
	}
}

func (p *typedCompiler) fillScalar(out *typedNode, t reflect.Type, s *schema.Scalar) {
	if s == nil {
		return
	}
	var want schema.Scalar
	switch t.Kind() {
	case reflect.String, reflect.Slice:
		want = schema.String
	case reflect.Bool:
		want = schema.Boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Float32, reflect.Float64:
		want = schema.Numeric
	default:
		return
	}
	if *s == want || *s == schema.Untyped {
		out.shape, out.equal = leaf, p.equal.of(t)
	}
}

func (p *typedCompiler) fillStruct(out *typedNode, t reflect.Type, m *schema.Map) {
	if m == nil {
		return
	}
	out.shape = structure
	if m.ElementRelationship == schema.Atomic {
		out.shape, out.equal = leaf, p.equal.of(t)
	}
	for _, f := range structFields(t) {
		f.node = &typedNode{}
		ref := m.ElementType
		if sf, ok := m.FindField(f.name); ok {
			ref = sf.Type
		}
		if ref != (schema.TypeRef{}) {
			f.node = p.node(t.FieldByIndex(f.index).Type, ref)
		}
		out.fields = append(out.fields, f)
	}
}

func (p *typedCompiler) fillMap(out *typedNode, t reflect.Type, m *schema.Map) {
	if m == nil || len(m.Fields) > 0 || t.Key().Kind() != reflect.String || m.ElementType == (schema.TypeRef{}) {
		return
	}
	out.shape = mapping
	if m.ElementRelationship == schema.Atomic {
		out.shape, out.equal = leaf, p.equal.of(t)
	}
	out.elem = p.node(t.Elem(), m.ElementType)
	out.strings = t == reflect.TypeFor[map[string]string]() && out.elem.shape == leaf
}

func (p *typedCompiler) fillList(out *typedNode, t reflect.Type, l *schema.List) {
	if l == nil {
		return
	}
	out.elem = p.node(t.Elem(), l.ElementType)
	switch {
	case l.ElementRelationship == schema.Atomic:
		out.shape, out.equal = leaf, p.equal.of(t)
	case len(l.Keys) > 0:
		p.fillKeys(out, l)
	case out.elem.shape == leaf && plainScalar(t.Elem()):
		out.shape = scalarSet
	}
}

func (p *typedCompiler) fillKeys(out *typedNode, l *schema.List) {
	atom, ok := p.resolve(l.ElementType)
	if !ok || atom.Map == nil {
		return
	}
	for _, name := range l.Keys {
		key := listKey{name: name}
		if sf, ok := atom.Map.FindField(name); ok {
			if key.fallback, ok = serializeDefault(sf.Default); !ok {
				return
			}
		}
		out.keys = append(out.keys, key)
	}
	slices.SortFunc(out.keys, func(a, b listKey) int { return strings.Compare(a.name, b.name) })
	out.shape = keyed
}

// structFields lists the fields that a struct has in JSON, by name. Of several fields with one name the last counts.
func structFields(t reflect.Type) []typedField {
	byName := map[string]typedField{}
	for f := range gotype.Fields(t) {
		if f.Inline {
			continue // not a struct
		}
		e := "f:" + f.JSON
		byName[f.JSON] = typedField{name: e[2:], element: e, index: f.Path, omit: omission(f)}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b typedField) int { return strings.Compare(a.name, b.name) })
}

// omission returns the test by which JSON omits a field, or nil.
func omission(f gotype.Field) func(reflect.Value) bool {
	var tests []func(reflect.Value) bool
	if f.OmitEmpty {
		switch f.Type.Kind() {
		case reflect.Slice, reflect.Map, reflect.String:
			tests = append(tests, func(v reflect.Value) bool { return v.Len() == 0 })
		case reflect.Struct, reflect.Array: // never empty
		default:
			tests = append(tests, reflect.Value.IsZero)
		}
	}
	if f.OmitZero {
		tests = append(tests, value.OmitZeroFunc(f.Type))
	}
	switch len(tests) {
	case 0:
		return nil
	case 1:
		return tests[0]
	}
	return func(v reflect.Value) bool { return tests[0](v) || tests[1](v) }
}

// marshals reports whether a type has its own MarshalJSON.
func marshals(t reflect.Type) bool {
	return value.TypeReflectEntryOf(t).CanConvertToUnstructured()
}

// scalarMarshalers are the types whose own MarshalJSON always writes a scalar.
var scalarMarshalers = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time]():        true,
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[intstr.IntOrString](): true,
}

// plainScalar reports whether the values of a type are plain strings, numbers or booleans.
func plainScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer, reflect.Interface:
		return false
	}
	return !marshals(t)
}
