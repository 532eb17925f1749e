package expressions

import (
	"context"
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Rules are the rules in CEL of a schema that are compiled to closures. They are immutable and safe for concurrent use.
type Rules struct {
	root *node
	// Covered is the number of these rules.
	Covered int
	// RestCount is the number of the other rules, and rest the schema that was compiled, with the other rules only. Nil: there are none.
	RestCount int
	rest      *structuralschema.Structural
}

// Rest returns a schema with the rules that are not covered. whole is the schema from which, or from whose part, the rules were compiled. It is not
// changed.
func (r *Rules) Rest(whole *structuralschema.Structural) *structuralschema.Structural {
	return restOf(whole, r.rest)
}

// restOf is the schema whole with the rules of part, which is nil where there are none.
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

// node has the rules at one place of a schema, and the nodes below it.
type node struct {
	rules []rule
	of    kind // of the values at the place
	// transitions: a rule here or below reads the old value.
	transitions   bool
	items, values *node
	fields        []namedNode
	// list finds old items by their keys; uncorrelated: the values of a map have no old values.
	list         common.Schema
	uncorrelated bool
}

type namedNode struct {
	name string
	*node
}

// rule is a compiled rule, which has to be true. A transition rule is evaluated only if there is an old value.
type rule struct {
	eval       eval
	transition bool
}

// Hold reports whether all rules certainly hold, which is not known when ctx ends first, and the greatest cost of that in CEL's units. old is nil
// for a new object. It does not change its arguments.
func (r *Rules) Hold(ctx context.Context, object, old map[string]any) (cost int64, ok bool) {
	c := check{frame: frame{limit: celconfig.PerCallLimit, done: ctx.Done()}, budget: celconfig.RuntimeCELCostBudget}
	var before any
	if old != nil {
		before = old
	}
	ok = c.node(r.root, object, before)
	return celconfig.RuntimeCELCostBudget - c.budget, ok
}

// check evaluates rules on one object.
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
		if c.frame.over() {
			return false
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

// isNil reports whether there is no old value.
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

// Compile compiles the rules of a schema, which is the schema of a whole object. Nil: no rule is covered.
func Compile(s *structuralschema.Structural) *Rules {
	if s == nil || hidden(s) {
		return nil
	}
	b, declared := builder{}, model.SchemaDeclType(s, true)
	places := *s
	b.node(&places, declared, true)
	b.compile()
	b.left = 0 // the second walk counts them again
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

// hidden reports whether there are rules within allOf, which upstream finds only if there are others, too.
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

// correlated returns the form of a list in which keys find old items.
func correlated(s *structuralschema.Structural) common.Schema {
	if s.XListType == nil || *s.XListType != "map" || len(s.XListMapKeys) == 0 {
		return nil
	}
	return &model.Structural{Structural: s}
}

func uncorrelated(s *structuralschema.Structural) bool { return !cel.MapIsCorrelatable(s.XMapType) }

func sortedNames[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
