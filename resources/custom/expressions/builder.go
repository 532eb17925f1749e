package expressions

import (
	"maps"
	"runtime"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// builder compiles the rules of a schema, and counts them. It walks the schema twice, in the same order: the first time it finds the places
// with rules, which are then compiled on all processors, and the second time it puts the compiled rules into nodes.
type builder struct {
	places        []place
	found         bool // all places are found, and their rules are compiled
	next          int  // index of the next place in the second walk
	covered, left int
}

// place is a place in a schema that has rules. made has the compiled form of each rule; nil: the rule has no closure.
type place struct {
	of       *structuralschema.Structural
	declared *apiservercel.DeclType
	kind     kind
	made     []*rule
}

// node takes the compiled rules at a place of a schema, and removes them from rest, which is a copy of the place whose parts are copied
// before they are changed. All rules stay in rest within embedded objects, and without a declaration, on which upstream depends as well.
func (b *builder) node(rest *structuralschema.Structural, declared *apiservercel.DeclType, root bool) *node {
	if declared == nil || rest.XEmbeddedResource && !root {
		b.left += count(rest)
		return nil
	}
	n := &node{uncorrelated: uncorrelated(rest), list: correlated(rest)}
	b.rules(n, rest, declared, root)
	if rest.Items != nil {
		items := *rest.Items
		n.items = n.below(b.node(&items, declared.ElemType, false))
		rest.Items = &items
	}
	if a := rest.AdditionalProperties; a != nil && a.Structural != nil {
		values := *a.Structural
		n.values = n.below(b.node(&values, declared.ElemType, false))
		rest.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: &values, Bool: a.Bool}
	}
	rest.Properties = maps.Clone(rest.Properties)
	for _, name := range sortedNames(rest.Properties) {
		property := rest.Properties[name]
		if field := n.below(b.node(&property, fieldType(declared, name, &property), false)); field != nil {
			n.fields = append(n.fields, namedNode{name, field})
		}
		rest.Properties[name] = property
	}
	if len(n.rules) == 0 && n.items == nil && n.values == nil && len(n.fields) == 0 {
		return nil
	}
	return n
}

// below records that a node has a child with transitions.
func (n *node) below(child *node) *node {
	n.transitions = n.transitions || child != nil && child.transitions
	return child
}

// fieldType is the declaration of a property. A property whose name CEL cannot express has its own.
func fieldType(declared *apiservercel.DeclType, name string, property *structuralschema.Structural) *apiservercel.DeclType {
	escaped, ok := apiservercel.Escape(name)
	if !ok {
		return model.SchemaDeclType(property, property.XEmbeddedResource)
	}
	if field, there := declared.Fields[escaped]; there {
		return field.Type
	}
	return nil
}

// count is the number of rules in a schema.
func count(s *structuralschema.Structural) int {
	if s == nil {
		return 0
	}
	n := len(s.XValidations) + count(s.Items)
	if s.AdditionalProperties != nil {
		n += count(s.AdditionalProperties.Structural)
	}
	for _, property := range s.Properties {
		n += count(&property)
	}
	return n
}

// rules records the place of a node with rules in the first walk, and takes the compiled rules in the second.
func (b *builder) rules(n *node, rest *structuralschema.Structural, declared *apiservercel.DeclType, root bool) {
	rules := rest.XValidations
	if len(rules) == 0 {
		return
	}
	if !b.found {
		of := *rest
		if root {
			of = *model.WithTypeAndObjectMeta(&of)
		}
		b.places = append(b.places, place{of: &of, declared: declared})
		return
	}
	made := b.places[b.next]
	b.next++
	n.of = made.kind
	rest.XValidations = nil
	for i, rule := range made.made {
		if rule == nil {
			rest.XValidations = append(rest.XValidations, rules[i])
			b.left++
			continue
		}
		b.covered++
		n.transitions = n.transitions || rule.transition
		n.rules = append(n.rules, *rule)
	}
}

// compile compiles the rules of all places. It takes most of the time for the first object of a schema, some 0.4 ms for each rule.
func (b *builder) compile() {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range b.places {
		workers.Go(func() error { b.places[i].compile(); return nil })
	}
	_ = workers.Wait()
	b.found = true
}

// compile compiles the rules of one place.
func (p *place) compile() {
	// A panic in this goroutine would end the process: a place whose rules make the library panic is left to upstream's code, within the
	// request.
	defer func() {
		if recover() != nil {
			p.made = make([]*rule, len(p.of.XValidations))
		}
	}()
	p.made = make([]*rule, len(p.of.XValidations))
	scoped := shapeOf(p.of)
	if p.kind = scoped.kind; p.kind == foreign {
		return
	}
	env, err := Environment(p.declared, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv())
	if err != nil {
		return
	}
	for i, r := range p.of.XValidations {
		if made, fits := compileRule(env, scoped, r); fits {
			p.made[i] = &made
		}
	}
}

// Environment is the environment in which upstream compiles the rules of a schema: base, and the variables self and oldSelf.
func Environment(declared *apiservercel.DeclType, base *celgo.Env) (*celgo.Env, error) {
	scoped := declared.MaybeAssignTypeName("@selfType") // a name that no rule can use
	provider := apiservercel.NewDeclTypeProvider(scoped)
	provider.SetRecognizeKeywordAsFieldName(true)
	options, err := provider.EnvOptions(base.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	return base.Extend(append(options, celgo.Variable(cel.ScopedVarName, scoped.CelType()), celgo.Variable(cel.OldScopedVarName, scoped.CelType()))...)
}

func compileRule(env *celgo.Env, of *shape, r apiextensionsv1.ValidationRule) (made rule, ok bool) {
	if strings.TrimSpace(r.Rule) == "" || r.OptionalOldSelf != nil && *r.OptionalOldSelf {
		return made, false
	}
	checked, issues := env.Compile(r.Rule)
	if issues.Err() != nil {
		return made, false
	}
	all := &scope{name: cel.ScopedVarName, slot: self, shape: of}
	all = &scope{name: cel.OldScopedVarName, slot: oldSelf, shape: of, outer: all}
	for _, ref := range checked.NativeRep().ReferenceMap() {
		made.transition = made.transition || ref.Name == cel.OldScopedVarName
	}
	t, err := compile(checked.NativeRep().Expr(), all)
	if err != nil || t.kind != aBool {
		return made, false
	}
	made.eval = t.eval
	return made, true
}
