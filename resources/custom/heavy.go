package custom

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apiextensionsfeatures "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// heavy is the validation of a version by its schema. What is compiled for it is among what may be dropped.
type heavy struct {
	definition *definition
	version    string
	// build makes the refuser.
	build func() (any, error)
}

// refuser has upstream's rules with everything. What it does not refuse is valid.
type refuser struct{ object, status rest.RESTUpdateStrategy }

// rulesKey is the key of the refuser of a version among what is compiled. It takes about rulesCost times the length of the text of its
// schema, and ruleCost bytes for each rule in CEL.
type rulesKey struct {
	name     string
	revision int64
	version  string
}

// expressionsKey is the key of the rules in CEL of the schema with a digest.
type expressionsKey struct{ digest string }

const (
	rulesCost = 2
	ruleCost  = 24 << 10
)

func (h *heavy) refuser() (refuser, error) {
	d, sum := h.definition, h.definition.sums[h.version]
	v, err := d.compiled.get(rulesKey{d.name, d.revision, h.version}, int64(sum.size)*rulesCost+int64(sum.rules)*ruleCost, h.build)
	if err != nil {
		return refuser{}, err
	}
	return v.(refuser), nil
}

// expressions returns the rules in CEL; nil: there are none.
func (h *heavy) expressions() (*cel.Validator, error) {
	sum := h.definition.sums[h.version]
	v, err := h.definition.compiled.get(expressionsKey{sum.digest}, int64(sum.rules)*ruleCost, func() (any, error) {
		s, err := h.definition.schema(h.version)
		if err != nil {
			return nil, err
		}
		return cel.NewValidator(s.structural, true, celconfig.PerCallLimit), nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*cel.Validator), nil
}

// quick validates what the plan of the schema finds valid; whatever else there is to say, upstream's refuser says. old is nil for a
// new object. light are the rules that need no schema.
//
// Upstream asks the rules in CEL when all others are satisfied, as here, so that their errors are all there are.
func (h *heavy) quick(ctx context.Context, obj, old runtime.Object, light func() field.ErrorList) (errs field.ErrorList, ok bool) {
	if !fastpath.CustomValidation.On() {
		return nil, false
	}
	u, ok := obj.(*unstructured.Unstructured)
	before, was := old.(*unstructured.Unstructured)
	if !ok || was != (old != nil) || !h.definition.plan(h.version).Valid(u.Object, was) || len(light()) > 0 {
		fastpath.CustomValidation.Fallback()
		return nil, false
	}
	rules, err := h.expressions()
	switch {
	case err != nil:
		return nil, false
	case rules == nil:
		return nil, true
	case !was:
		errs, _ = rules.Validate(ctx, nil, nil, u.Object, nil, celconfig.RuntimeCELCostBudget)
		return errs, true
	}
	s, err := h.definition.schema(h.version)
	if err != nil {
		return nil, false
	}
	var options []cel.Option
	if utilfeature.DefaultFeatureGate.Enabled(apiextensionsfeatures.CRDValidationRatcheting) {
		options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(u.Object, before.Object, &model.Structural{Structural: s.structural})))
	}
	errs, _ = rules.Validate(ctx, nil, nil, u.Object, before.Object, celconfig.RuntimeCELCostBudget, options...)
	return errs, true
}
