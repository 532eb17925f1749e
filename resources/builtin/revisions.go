package builtin

import (
	"bytes"
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
)

// revisionStrategy is upstream's, for a store that keeps objects as JSON: what an update brings as data is written as
// the stored data is, without white space, because the two must be equal to the byte.
type revisionStrategy struct {
	strategy
	rest.DeclarativeValidationStrategy
}

var revisions = revisionStrategy{controllerrevision.Strategy, controllerrevision.Strategy}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s revisionStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.strategy.PrepareForUpdate(ctx, obj, old)
	data := &obj.(*apps.ControllerRevision).Data
	var compact bytes.Buffer
	if json.Compact(&compact, data.Raw) == nil { // what is no JSON is left to validation
		data.Raw = compact.Bytes()
	}
}
