package expressions

import (
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Rules are the rules in CEL of a schema that are compiled to closures. They do not change, and can be used concurrently.
type Rules struct {
	root *node
	// Covered is how many rules there are.
	Covered int
	// RestCount is how many others there are, and rest what they were compiled of, with them alone. Nil: there are none.
	RestCount int
	rest      *structuralschema.Structural
}

// Rest returns a schema with the rules that are not covered. whole is the one of which, or of the part of which, the rules were compiled. It is not
// changed.
func (r *Rules) Rest(whole *structuralschema.Structural) *structuralschema.Structural {
	return restOf(whole, r.rest)
}

// restOf is a schema with the rules of its part, which is nil where that has none.
func restOf(whole, part *structuralschema.Structural) *structuralschema.Structural {
	if whole == nil || part == nil {
		return whole
	}
	rest := *whole
	rest.XValidations = part.XValidations
	rest.Items = restOf(whole.Items, part.Items)
	if a, b := whole.AdditionalProperties, part.AdditionalProperties; a != nil && b != nil {
		rest.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: restOf(a.Structural, b.Structural), Bool: a.Bool}
	}
	rest.Properties = maps.Clone(whole.Properties)
	for name, property := range part.Properties {
		of := whole.Properties[name]
		rest.Properties[name] = *restOf(&of, &property)
	}
	return &rest
}

// node has the rules at one place of a schema, and below it.
type node struct {
	rules []rule
	of    kind // what they are rules of
	// transitions: a rule here or below looks at the old value.
	transitions   bool
	items, values *node
	fields        []namedNode
	// list has old items by their keys; uncorrelated: what is in a map has no old value.
	list         common.Schema
	uncorrelated bool
}

type namedNode struct {
	name string
	*node
}

// rule is one of them, a truth. A transition is only asked about where there is an old value.
type rule struct {
	eval       eval
	transition bool
}

// Hold tells whether all rules hold for sure, and what that cost, at most, in the units of CEL. old is nil for a new object. What it is
// called with is not changed.
func (r *Rules) Hold(object, old map[string]any) (cost int64, ok bool) {
	c := check{frame: frame{limit: celconfig.PerCallLimit}, budget: celconfig.RuntimeCELCostBudget}
	var before any
	if old != nil {
		before = old
	}
	ok = c.node(r.root, object, before)
	return celconfig.RuntimeCELCostBudget - c.budget, ok
}

// check holds one object against rules.
type check struct {
	frame  frame
	budget int64
}

// node follows upstream's Validator.
func (c *check) node(n *node, v, old any) bool {
	if n == nil || v == nil {
		return true
	}
	if !n.transitions {
		old = nil
	}
	if len(n.rules) > 0 && !c.rules(n, v, old) {
		return false
	}
	switch v := v.(type) {
	case []any:
		before, _ := old.([]any)
		return c.items(n, v, before)
	case map[string]any:
		before, _ := old.(map[string]any)
		return c.fields(n, v, before)
	}
	return true
}

func (c *check) rules(n *node, v, old any) bool {
	v, ok := n.of.read(v)
	if !ok {
		return false
	}
	c.frame.variables[self], c.frame.variables[oldSelf] = v, nil
	if !isNil(old) {
		if c.frame.variables[oldSelf], ok = n.of.read(old); !ok {
			return false
		}
	}
	for i := range n.rules {
		rule := &n.rules[i]
		if rule.transition && isNil(old) {
			continue
		}
		c.frame.cost = 0
		is, ok := rule.eval(&c.frame)
		if !ok || is != true || c.frame.cost > c.frame.limit {
			return false
		}
		if c.budget -= c.frame.cost; c.budget <= 0 {
			return false
		}
	}
	return true
}

// isNil tells whether there is no old value.
func isNil(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return v == nil
	case []any:
		return v == nil
	}
	return false
}

func (c *check) items(n *node, list, old []any) bool {
	if n.items == nil {
		return true
	}
	var before common.MapList
	if n.items.transitions && n.list != nil && len(old) > 0 {
		before = common.MakeMapList(n.list, old)
	}
	for _, v := range list {
		var was any
		if before != nil {
			was = before.Get(v)
		}
		if !c.node(n.items, v, was) {
			return false
		}
	}
	return true
}

func (c *check) fields(n *node, object, old map[string]any) bool {
	if n.uncorrelated {
		old = nil
	}
	if n.values != nil {
		for name, v := range object {
			if !c.node(n.values, v, old[name]) {
				return false
			}
		}
	}
	for _, field := range n.fields {
		if v, there := object[field.name]; there && !c.node(field.node, v, old[field.name]) {
			return false
		}
	}
	return true
}

// Compile compiles the rules of a schema, which is that of a whole object. Nil: there are none that it covers.
func Compile(s *structuralschema.Structural) *Rules {
	if s == nil || hidden(s) {
		return nil
	}
	b, declared := builder{}, model.SchemaDeclType(s, true)
	places := *s
	b.node(&places, declared, true)
	b.compile()
	b.left = 0 // the second time counts them again
	rest := *s
	n := b.node(&rest, declared, true)
	if b.covered == 0 {
		return nil
	}
	rules := &Rules{root: n, Covered: b.covered, RestCount: b.left}
	if b.left > 0 {
		rules.rest = &rest
	}
	return rules
}

// hidden tells whether there are rules within allOf, which upstream finds only where there are others, too.
func hidden(s *structuralschema.Structural) bool {
	if s == nil {
		return false
	}
	if s.ValueValidation != nil && slices.ContainsFunc(s.ValueValidation.AllOf, nested) {
		return true
	}
	for _, property := range s.Properties {
		if hidden(&property) {
			return true
		}
	}
	return hidden(s.Items) || s.AdditionalProperties != nil && hidden(s.AdditionalProperties.Structural)
}

func nested(v structuralschema.NestedValueValidation) bool {
	if len(v.ValidationExtensions.XValidations) > 0 || slices.ContainsFunc(v.AllOf, nested) {
		return true
	}
	for _, property := range v.Properties {
		if nested(property) {
			return true
		}
	}
	return v.Items != nil && nested(*v.Items) || v.AdditionalProperties != nil && nested(*v.AdditionalProperties)
}

// correlated is the form of a list in which old items are found by their keys.
func correlated(s *structuralschema.Structural) common.Schema {
	if s.XListType == nil || *s.XListType != "map" || len(s.XListMapKeys) == 0 {
		return nil
	}
	return &model.Structural{Structural: s}
}

func uncorrelated(s *structuralschema.Structural) bool { return !cel.MapIsCorrelatable(s.XMapType) }

func sortedNames[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
