package custom

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/metrics"

	"github.com/rowlock/rowlock/resources/custom/expressions"
)

// verdict has cel-go's results for the rules of a schema, all of which are valid, in CEL's units of cost. The figures are upstream's
// (TestCostsOfRulesAreUpstreams).
type verdict struct {
	// most is the cost of the most expensive rule for one value, all the cost of all rules, and messages the cost of messageExpressions.
	most, all, messages uint64
	// often is the greatest number of values in an object where no surrounding schema bounds it.
	often uint64
	// held is the cost of checking the default against the rules.
	held uint64
	// old: a rule reads the old value.
	old bool
}

// verdict returns the verdict on the rules of a schema. ok is false where one of them is not valid.
func (d *Definitions) verdict(ctx context.Context, p ruledPlace) (v verdict, ok bool) {
	key := sha256.Sum256([]byte(strconv.FormatBool(p.root) + p.text))
	if v, ok = d.verdicts.Get(key); ok {
		return v, true
	}
	props, err := readProps(p.text)
	if err != nil {
		return v, false
	}
	s, err := structuralschema.NewStructural(props)
	if err != nil || p.ruled && !v.ofRules(s, p.root) || p.defaults && !v.ofDefault(ctx, s) {
		return v, false
	}
	d.verdicts.Put(key, v)
	return v, true
}

// ofRules compiles the rules of a schema.
func (v *verdict) ofRules(s *structuralschema.Structural, root bool) (ok bool) {
	if slices.ContainsFunc(s.XValidations, func(r apiextensionsv1.ValidationRule) bool { return !wellSaid(r, s) }) {
		return false
	}
	declared := model.SchemaDeclType(s, root || s.XEmbeddedResource)
	if declared == nil {
		return false
	}
	unusual := func(r apiextensionsv1.ValidationRule) bool {
		return r.OptionalOldSelf != nil || r.MessageExpression != ""
	}
	if slices.ContainsFunc(s.XValidations, unusual) {
		return v.byUpstream(s, declared)
	}
	began := time.Now()
	defer func() { metrics.Metrics.ObserveCompilation(time.Since(began)) }()
	env, err := expressions.Environment(declared, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv())
	if err != nil {
		return false
	}
	estimator := &library.CostEstimator{SizeEstimator: sizes{declared}}
	for _, r := range s.XValidations {
		if !v.ofRule(env, r.Rule, estimator) {
			return false
		}
	}
	v.often = uint64(celconfig.MaxRequestSizeBytes / (declared.MinSerializedSize + 1)) // with a comma between values, as upstream computes it
	return true
}

// ofRule compiles a rule as upstream does, in one environment where upstream makes four.
func (v *verdict) ofRule(env *celgo.Env, rule string, estimator *library.CostEstimator) (ok bool) {
	ast, issues := env.Compile(rule)
	if issues != nil || ast.OutputType() != celgo.BoolType {
		return false
	}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		v.old = v.old || ref.Name == cel.OldScopedVarName
	}
	if _, err := env.Program(ast, celgo.CostLimit(celconfig.PerCallLimit), celgo.CostTracking(estimator), celgo.InterruptCheckFrequency(celconfig.CheckFrequency)); err != nil {
		return false
	}
	cost, err := env.EstimateCost(ast, estimator)
	v.most, v.all = max(v.most, cost.Max), sum(v.all, cost.Max)
	return err == nil
}

// byUpstream compiles rules by upstream's own function.
func (v *verdict) byUpstream(s *structuralschema.Structural, declared *apiservercel.DeclType) (ok bool) {
	results, err := cel.Compile(s, declared, celconfig.PerCallLimit, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.NewExpressionsEnvLoader())
	if err != nil {
		return false
	}
	for i, r := range results {
		if r.Error != nil || r.MessageExpressionError != nil || r.Program == nil || r.MessageExpressionMaxCost > validation.StaticEstimatedCostLimit ||
			!r.UsesOldSelf && s.XValidations[i].OptionalOldSelf != nil {
			return false
		}
		v.most, v.all, v.messages = max(v.most, r.MaxCost), sum(v.all, r.MaxCost), sum(v.messages, r.MessageExpressionMaxCost)
		v.often, v.old = r.MaxCardinality, v.old || r.UsesOldSelf
	}
	return true
}

// sizes are the greatest sizes of values by the declaration, which is that of self and of oldSelf.
type sizes struct{ of *apiservercel.DeclType }

// EstimateSize implements checker.CostEstimator.
func (s sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path, at := element.Path(), s.of
	for i := 1; i < len(path) && at != nil; i++ {
		switch path[i] {
		case "@items", "@values":
			at = at.ElemType
		case "@keys":
			at = at.KeyType
		default:
			field := at.Fields[path[i]]
			if field == nil {
				return nil
			}
			at = field.Type
		}
	}
	if len(path) == 0 || at == nil {
		return nil
	}
	return &checker.SizeEstimate{Max: uint64(at.MaxElements)}
}

// EstimateCallCost implements checker.CostEstimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// ofDefault checks the default of a schema against its rules and those below, as upstream does: as an unchanged value and as a new one.
func (v *verdict) ofDefault(ctx context.Context, s *structuralschema.Structural) (ok bool) {
	met := withRulesFor(s, []any{s.Default.Object})
	validator := cel.NewValidator(met, s.XEmbeddedResource, celconfig.PerCallLimit)
	if validator == nil {
		return true
	}
	for _, old := range []any{s.Default.Object, nil} {
		errs, left := validator.Validate(ctx, nil, met, s.Default.Object, old, celconfig.RuntimeCELCostBudget)
		if len(errs) > 0 || left < 0 {
			return false
		}
		v.held = max(v.held, uint64(celconfig.RuntimeCELCostBudget-left))
	}
	return true
}

// withRulesFor is a schema without the rules that apply to none of the values and so need not be compiled. values are all values at its place.
func withRulesFor(s *structuralschema.Structural, values []any) *structuralschema.Structural {
	if s == nil {
		return nil
	}
	short := *s
	if len(values) == 0 {
		short.XValidations = nil
	}
	var items, fields []any
	var objects []map[string]any
	for _, v := range values {
		switch v := v.(type) {
		case []any:
			items = append(items, v...)
		case map[string]any:
			objects = append(objects, v)
			fields = slices.AppendSeq(fields, maps.Values(v))
		}
	}
	short.Items = withRulesFor(s.Items, items)
	if a := s.AdditionalProperties; a != nil && a.Structural != nil {
		short.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: withRulesFor(a.Structural, fields), Bool: a.Bool}
	}
	short.Properties = maps.Clone(s.Properties)
	for name, property := range s.Properties {
		var of []any
		for _, object := range objects {
			if v, there := object[name]; there {
				of = append(of, v)
			}
		}
		short.Properties[name] = *withRulesFor(&property, of)
	}
	return &short
}

// wellSaid reports whether a rule certainly satisfies upstream's checks other than those of its expressions.
func wellSaid(r apiextensionsv1.ValidationRule, s *structuralschema.Structural) bool {
	empty := func(text string) bool { return strings.TrimSpace(text) == "" }
	lines := func(text string) bool { return strings.ContainsAny(strings.TrimSpace(text), "\r\n") }
	switch {
	case empty(r.Rule), r.Message != "" && empty(r.Message), lines(r.Message), lines(r.Rule) && r.Message == "", r.MessageExpression != "" && empty(r.MessageExpression):
		return false
	}
	if r.Reason != nil {
		switch *r.Reason {
		case apiextensionsv1.FieldValueRequired, apiextensionsv1.FieldValueForbidden, apiextensionsv1.FieldValueInvalid, apiextensionsv1.FieldValueDuplicate:
		default:
			return false
		}
	}
	if r.FieldPath == "" {
		return true
	}
	_, _, err := cel.ValidFieldPath(r.FieldPath, s)
	return err == nil && !empty(r.FieldPath) && !strings.ContainsAny(r.FieldPath, "\r\n")
}
