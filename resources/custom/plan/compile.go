package plan

import (
	"maps"
	"math"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// Compile makes the plan of a schema: validation is the form of it for upstream's validator, structural the form for pruning and
// defaulting, with its defaults pruned. It keeps neither.
//
// A schema without a structure has no plan (nil).
func Compile(validation *spec.Schema, structural *structuralschema.Structural) *Node {
	if validation == nil || structural == nil {
		return nil
	}
	return compile(validation, structural)
}

// compile makes a node, and those below it. s is nil within allOf and the like, which do not define the structure.
func compile(v *spec.Schema, s *structuralschema.Structural) *Node {
	return build(v, s, childrenOf(v, s))
}

// children are the nodes below one.
type children struct {
	item, entry *Node
	fields      map[string]*Node
	// differ: the children of the two forms of the schema differ.
	differ bool
}

func childrenOf(v *spec.Schema, s *structuralschema.Structural) (c children) {
	item, entry := (*structuralschema.Structural)(nil), (*structuralschema.Structural)(nil)
	if s != nil {
		item = s.Items
		if s.AdditionalProperties != nil {
			entry = s.AdditionalProperties.Structural
		}
		c.differ = len(s.Properties) != len(v.Properties)
	}
	if v.Items != nil && v.Items.Schema != nil {
		c.item = compile(v.Items.Schema, item)
	}
	if v.AdditionalProperties != nil && v.AdditionalProperties.Schema != nil {
		c.entry = compile(v.AdditionalProperties.Schema, entry)
	}
	c.differ = c.differ || s != nil && ((item != nil) != (c.item != nil) || (entry != nil) != (c.entry != nil))
	if len(v.Properties) > 0 {
		c.fields = make(map[string]*Node, len(v.Properties))
	}
	for name, property := range v.Properties {
		of := (*structuralschema.Structural)(nil)
		if s != nil {
			structure, ok := s.Properties[name]
			c.differ = c.differ || !ok
			of = &structure
		}
		c.fields[name] = compile(&property, of)
	}
	return c
}

// build makes a node from a schema and its children.
func build(v *spec.Schema, s *structuralschema.Structural, c children) *Node {
	n := &Node{nullable: v.Nullable, formatted: v.Format != ""}
	n.readTypes(v)
	n.readScalars(v)
	n.readList(v, s)
	n.readFields(v, s, c)
	n.item, n.entry = c.item, c.entry
	for _, below := range []*Node{c.item, c.entry} {
		n.odd = n.odd || below != nil && below.odd
	}
	n.readJunctors(v)
	if v.Ref.String() != "" || len(v.Dependencies) > 0 || len(v.PatternProperties) > 0 || v.MultipleOf != nil || v.UniqueItems {
		n.foreign = true
	}
	n.differs(c.differ)
	if s != nil {
		n.preserve, n.embedded, n.nullable = s.XPreserveUnknownFields, s.XEmbeddedResource, s.Nullable
		n.fallback = s.Default.Object
		n.differs(s.Nullable != v.Nullable)
	}
	return n.shared()
}

// differs records that the two forms of the schema do not match, which should not happen.
func (n *Node) differs(do bool) {
	n.foreign, n.odd = n.foreign || do, n.odd || do
}

func (n *Node) readTypes(v *spec.Schema) {
	for _, name := range v.Type {
		known := typesByName[name]
		n.types |= known
		n.foreign = n.foreign || known == 0
	}
	n.foreign = n.foreign || n.types == 0 && n.formatted
	if len(v.Type) == 1 {
		n.int32 = n.types == anInteger && v.Format == "int32"
		n.noFloats = n.types == aNumber && (v.Format == "float" || v.Format == "float32")
	}
}

func (n *Node) readScalars(v *spec.Schema) {
	for _, value := range v.Enum {
		switch value.(type) {
		case string, bool, int64:
			n.enum = append(n.enum, value)
		default:
			n.foreign = true
		}
	}
	n.text.length = boundsOf(v.MinLength, v.MaxLength)
	if strfmt.Default.ContainsName(v.Format) {
		n.text.format = v.Format
	}
	if v.Pattern != "" {
		n.text.pattern, _ = patterns.of(v.Pattern, func() (*pattern, error) { return newPattern(v.Pattern), nil })
	}
	n.min, n.max = n.bound(v.Minimum, v.ExclusiveMinimum), n.bound(v.Maximum, v.ExclusiveMaximum)
}

// bound reads a minimum or a maximum. A bound that the type itself does not allow makes every number invalid, and one that is not an
// int64 is compared in odd ways, so both are left to upstream.
func (n *Node) bound(at *float64, exclusive bool) *bound {
	if at == nil {
		return nil
	}
	b := &bound{int64(*at), *at, exclusive}
	const most = 1 << 53
	if math.IsNaN(*at) || math.Abs(*at) > most || n.types == anInteger && (*at != math.Trunc(*at) || n.int32 && !fitsInt32(b.whole)) {
		n.foreign = true
	}
	return b
}

func boundsOf(min, max *int64) bounds {
	b := bounds{math.MinInt64, math.MaxInt64}
	if min != nil {
		b.min = *min
	}
	if max != nil {
		b.max = *max
	}
	return b
}

func (n *Node) readList(v *spec.Schema, s *structuralschema.Structural) {
	n.size = boundsOf(v.MinItems, v.MaxItems)
	if v.AdditionalItems != nil || v.Items != nil && len(v.Items.Schemas) > 0 {
		n.foreign = true
	}
	if s != nil {
		n.readListType(s)
	}
}

func (n *Node) readListType(s *structuralschema.Structural) {
	if s.XListType == nil {
		return
	}
	switch *s.XListType {
	case "set":
		n.list = setList
	case "map":
		n.list, n.keys = mapList, s.XListMapKeys
		n.foreign = n.foreign || len(n.keys) == 0
	}
}

func (n *Node) readFields(v *spec.Schema, s *structuralschema.Structural, c children) {
	n.properties, n.required, n.fields = boundsOf(v.MinProperties, v.MaxProperties), v.Required, c.fields
	for _, name := range slices.Sorted(maps.Keys(c.fields)) {
		field := c.fields[name]
		// If a branch of oneOf fails beside the matching one, upstream's validator keeps errors with this prefix, which errors for such
		// fields have.
		n.foreign = n.foreign || strings.HasPrefix(name, "IMPORTANT!")
		if s != nil && field.fallback != nil {
			n.defaults = append(n.defaults, name)
		}
		n.odd = n.odd || field.odd
	}
	n.open = s != nil && s.AdditionalProperties != nil
	if a := v.AdditionalProperties; a != nil {
		n.closed = !a.Allows && a.Schema == nil
		n.foreign = n.foreign || !a.Allows && a.Schema != nil
	}
}

func (n *Node) readJunctors(v *spec.Schema) {
	all := func(schemas []spec.Schema) (nodes []*Node) {
		for i := range schemas {
			nodes = append(nodes, compile(&schemas[i], nil))
		}
		return nodes
	}
	n.allOf, n.anyOf, n.oneOf = all(v.AllOf), all(v.AnyOf), all(v.OneOf)
	if v.Not != nil {
		n.not = compile(v.Not, nil)
	}
}

// shared returns the node in use that is equal to n.
func (n *Node) shared() *Node {
	key := n.key()
	shared, _ := nodes.of(key, func() (*Node, error) { return n, nil })
	return shared
}
