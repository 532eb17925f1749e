package custom

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// heavy is the validation of a version by its schema. Its compiled forms are in the cache, which may drop them.
type heavy struct {
	definition *definition
	version    string
	// build makes the refuser.
	build func() (any, error)
}

// refuser has all of upstream's rules. An object that it does not refuse is valid.
type refuser struct{ object, status rest.RESTUpdateStrategy }

// rulesKey is the cache key of the refuser of a version. The entry takes about rulesCost times the length of the text of the schema,
// and ruleCost bytes for each rule in CEL.
type rulesKey struct {
	name     string
	revision int64
	version  string
}

const (
	rulesCost = 2
	ruleCost  = 24 << 10
)

func (h *heavy) refuser() (refuser, error) {
	d, sum := h.definition, h.definition.sums.of(h.version)
	v, err := d.compiled.get(rulesKey{d.name, d.revision, h.version}, int64(sum.size)*rulesCost+int64(sum.rules)*ruleCost, h.build)
	if err != nil {
		return refuser{}, err
	}
	return v.(refuser), nil
}

// quick validates objects that satisfy the plan of the schema; for all others, ok is false and upstream's refuser makes the errors.
// old is nil for a new object. light are the rules that need no schema.
//
// Upstream evaluates the rules in CEL once all others are satisfied, and so does quick: an object with errors of these has no others.
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
	if !was {
		return h.expressions(ctx, u.Object, nil)
	}
	return h.expressions(ctx, u.Object, before.Object)
}
