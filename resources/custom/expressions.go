package custom

import (
	"context"
	"time"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources/custom/expressions"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// The cache keys of the rules in CEL of the schema with a digest: of the rules compiled to closures, which take about closureCost bytes
// each, of upstream's, which take ruleCost, and of those that the closures leave to upstream.
type (
	closuresKey    struct{ digest string }
	expressionsKey struct{ digest string }
	restKey        struct{ digest string }
)

const closureCost = 3 << 10

// closures returns the rules in CEL that are compiled to closures. Nil: none are.
func (h *heavy) closures() (*expressions.Rules, error) {
	sum := h.definition.sums.of(h.version)
	v, err := h.definition.compiled.get(closuresKey{sum.digest}, int64(sum.rules)*closureCost, func() (any, error) {
		if rules := h.closuresOfPart(sum.rules); rules != nil {
			return rules, nil
		}
		s, err := h.definition.schema(h.version)
		if err != nil {
			return nil, err
		}
		return compileRules(s.structural), nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*expressions.Rules), nil
}

// closuresOfPart compiles the part of the schema that its rules depend on; many is the number of these. Nil: the part cannot be read, or does
// not have all of them.
func (h *heavy) closuresOfPart(many int) *expressions.Rules {
	text, _ := h.definition.schemaText(h.version)
	part, ok := expressions.Part(text)
	if !ok {
		return nil
	}
	s, err := newVersionSchema(part)
	if err != nil {
		return nil
	}
	if rules := compileRules(s.structural); rules != nil && rules.Covered+rules.RestCount == many {
		return rules
	}
	return nil
}

func compileRules(s *structuralschema.Structural) *expressions.Rules {
	began := time.Now()
	defer func() { metrics.Metrics.ObserveCompilation(time.Since(began)) }()
	return expressions.Compile(s)
}

// upstreams returns upstream's validator of the rules of a schema, whose number is rules.
func (h *heavy) upstreams(key any, rules int, of func() *structuralschema.Structural) (*cel.Validator, error) {
	v, err := h.definition.compiled.get(key, int64(rules)*ruleCost, func() (any, error) {
		return cel.NewValidator(of(), true, celconfig.PerCallLimit), nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*cel.Validator), nil
}

// expressions evaluates the rules in CEL on an object; old is nil for a new one. ok is false where they cannot be compiled.
func (h *heavy) expressions(ctx context.Context, object, old map[string]any) (errs field.ErrorList, ok bool) {
	sum := h.definition.sums.of(h.version)
	if sum.rules == 0 {
		return nil, true
	}
	if fastpath.CustomCEL.On() {
		if errs, ok = h.quickExpressions(ctx, object, old); ok {
			return errs, true
		}
		if err := ctx.Err(); err != nil { // upstream would begin every rule, and be interrupted in each
			return field.ErrorList{field.InternalError(nil, err)}, true
		}
		fastpath.CustomCEL.Fallback()
	}
	s, err := h.definition.schema(h.version)
	if err != nil {
		return nil, false
	}
	rules, err := h.upstreams(expressionsKey{sum.digest}, sum.rules, func() *structuralschema.Structural { return s.structural })
	if err != nil {
		return nil, false
	}
	errs, _ = h.ask(ctx, rules, s.structural, object, old)
	return errs, true
}

// quickExpressions evaluates rules by closures, and by upstream where closures do not cover them. ok is false where a closure does not find
// that its rule holds or ctx ends, and where all rules together might cost more than upstream allows.
func (h *heavy) quickExpressions(ctx context.Context, object, old map[string]any) (errs field.ErrorList, ok bool) {
	own, err := h.closures()
	if err != nil || own == nil {
		return nil, false
	}
	began := time.Now()
	cost, holds := own.Hold(ctx, object, old)
	took := time.Since(began)
	// Without ok this does not count as an evaluation: upstream evaluates the rules instead, and counts that.
	defer func() {
		if ok {
			metrics.Metrics.ObserveEvaluation(took)
		}
	}()
	if !holds || own.RestCount == 0 {
		return nil, holds
	}
	s, err := h.definition.schema(h.version)
	if err != nil {
		return nil, false
	}
	rest, err := h.upstreams(restKey{h.definition.sums.of(h.version).digest}, own.RestCount, func() *structuralschema.Structural { return own.Rest(s.structural) })
	if err != nil {
		return nil, false
	}
	errs, left := h.ask(ctx, rest, s.structural, object, old)
	return errs, left > cost
}

// ask calls upstream's validator. left is the rest of the budget.
func (h *heavy) ask(ctx context.Context, rules *cel.Validator, s *structuralschema.Structural, object, old map[string]any) (errs field.ErrorList, left int64) {
	if old == nil {
		return rules.Validate(ctx, nil, nil, object, nil, celconfig.RuntimeCELCostBudget)
	}
	var options []cel.Option
	if utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CRDValidationRatcheting) {
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(object, old, &model.Structural{Structural: s})))
	}
	return rules.Validate(ctx, nil, nil, object, old, celconfig.RuntimeCELCostBudget, options...)
}
