package custom

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// The evaluation of rules ends with the request.
func TestExpressionsEndWithTheRequest(t *testing.T) {
	t.Cleanup(fastpath.CustomCEL.Turn(true))
	h := &heavy{version: "v1", definition: thingWith(t, `{"type":"object","properties":{"s":{"type":"string"},"l":{"type":"array","maxItems":100000,"items":{"type":"integer"}}},
		"x-kubernetes-validations":[{"rule":"self.l.all(x, size(self.s) >= 0)"},{"rule":"self.l.exists(x, size(self.s) > 0)"}]}`)}
	object := map[string]any{"s": "a", "l": slices.Repeat([]any{int64(1)}, 90000)}
	if errs, ok := h.expressions(t.Context(), object, nil); !ok || len(errs) > 0 {
		t.Errorf("%v %v", ok, errs)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if errs, ok := h.expressions(ctx, object, nil); !ok || len(errs) != 1 || errs[0].Type != field.ErrorTypeInternal {
		t.Errorf("after the end of the request: %v %v", ok, errs)
	}
}
