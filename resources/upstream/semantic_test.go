package upstream

import (
	"go/ast"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestCopiesOfSemantic counts where upstream copies Semantic or adds to it: functions added to a copy are not called below
// the types of useComparers, whose comment says for each of these two why that does no harm.
func TestCopiesOfSemantic(t *testing.T) {
	found := upstreamtest.Find(t, regexp.MustCompile(`\bSemantic\.(Copy|AddFuncs?)\(`), 4000, "k8s.io/kubernetes/pkg", "k8s.io/kubernetes/plugin", "k8s.io/api",
		"k8s.io/apimachinery", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator", "k8s.io/component-base",
		"k8s.io/component-helpers", "k8s.io/pod-security-admission")
	want := []string{
		"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go",
		"k8s.io/kubernetes/pkg/apis/core/validation/validation.go",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("copies of Semantic: %s", diff)
	}
}

// TestFunctionsOfSemantic: Semantic's own functions are for these types. resources/equality has the same answers without
// reflection for the four that occur in objects (upstreamFunctions).
func TestFunctionsOfSemantic(t *testing.T) {
	value, _ := upstreamtest.Variable(t, upstreamtest.ParsePackage(t, "k8s.io/apimachinery/pkg/api/equality"), "Semantic")
	var got []string
	for _, f := range value.(*ast.CallExpr).Args {
		of := f.(*ast.FuncLit).Type.Params.List[0].Type.(*ast.SelectorExpr)
		got = append(got, of.X.(*ast.Ident).Name+"."+of.Sel.Name)
	}
	want := []string{"resource.Quantity", "metav1.MicroTime", "metav1.Time", "metav1.FieldsV1", "labels.Selector", "fields.Selector"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions of Semantic: %s", diff)
	}
}
