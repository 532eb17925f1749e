package upstream

import (
	"errors"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestLimitsAreUpstreams compares the limits with those in the source of kube-apiserver's library.
func TestLimitsAreUpstreams(t *testing.T) {
	operations, _ := upstreamtest.Variable(t, upstreamtest.ParsePackage(t, "k8s.io/apiserver/pkg/endpoints/handlers"), "maxJSONPatchOperations")
	if got := number(t, operations); got != PatchOperations {
		t.Errorf("maxJSONPatchOperations is %d", got)
	}
	want := map[string]int64{"JSONPatchMaxCopyBytes": PatchCopiedBytes, "MaxRequestBodyBytes": BodyBytes}
	for _, file := range upstreamtest.ParsePackage(t, "k8s.io/apiserver/pkg/server") {
		ast.Inspect(file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := pair.Key.(*ast.Ident)
			if !ok || want[key.Name] == 0 {
				return true
			}
			if got := number(t, pair.Value.(*ast.CallExpr).Args[0]); got != want[key.Name] {
				t.Errorf("%s is %d", key.Name, got)
			}
			delete(want, key.Name)
			return true
		})
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// number is the value of an expression of literals.
func number(t *testing.T, e ast.Expr) int64 {
	t.Helper()
	value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(e))
	if err != nil {
		t.Fatal(err)
	}
	n, exact := constant.Int64Val(value.Value)
	if !exact {
		t.Fatalf("%s is no number", types.ExprString(e))
	}
	return n
}

// The library reads the variable that LimitPatchCopies sets.
func TestCopiesOfPatchesAreLimited(t *testing.T) {
	LimitPatchCopies()
	patch, err := jsonpatch.DecodePatch([]byte(`[{"op":"copy","from":"/a","path":"/b"},{"op":"copy","from":"/a","path":"/c"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for bytes, allowed := range map[int]bool{PatchCopiedBytes / 4: true, PatchCopiedBytes: false} {
		_, err := patch.Apply([]byte(`{"a":"` + strings.Repeat("a", bytes) + `"}`))
		var tooLarge *jsonpatch.AccumulatedCopySizeError
		if (err == nil) != allowed || !allowed && !errors.As(err, &tooLarge) {
			t.Errorf("copies of %d bytes: %v", bytes, err)
		}
	}
}
