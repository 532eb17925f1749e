package upstream

import (
	"go/ast"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestPrioritiesAreUpstreams compares the priorities with the two lists in the source of kube-apiserver, the second of which
// overrides the first.
func TestPrioritiesAreUpstreams(t *testing.T) {
	published := map[schema.GroupVersion]Priority{}
	for _, pkg := range []string{"k8s.io/kubernetes/pkg/controlplane/apiserver", "k8s.io/kubernetes/cmd/kube-apiserver/app"} {
		before := len(published)
		for _, file := range upstreamtest.ParsePackage(t, pkg) {
			ast.Inspect(file, func(n ast.Node) bool {
				list, ok := n.(*ast.CompositeLit)
				if ok && isPriorities(list.Type) {
					for _, e := range list.Elts {
						pair := e.(*ast.KeyValueExpr)
						gv, p := fields(t, pair.Key), fields(t, pair.Value)
						published[schema.GroupVersion{Group: gv["Group"], Version: gv["Version"]}] = Priority{atoi(t, p["Group"]), atoi(t, p["Version"])}
					}
				}
				return true
			})
		}
		if len(published) < before+20 {
			t.Fatalf("%s has %d priorities", pkg, len(published)-before)
		}
	}
	for gv, p := range Priorities {
		if want := published[gv]; p != want && gv.Group != "apiregistration.k8s.io" {
			t.Errorf("%s has %v, upstream %v", gv, p, want)
		}
	}
}

// isPriorities reports whether a type is map[schema.GroupVersion]APIServicePriority.
func isPriorities(e ast.Expr) bool {
	m, ok := e.(*ast.MapType)
	if !ok {
		return false
	}
	if s, ok := m.Value.(*ast.SelectorExpr); ok {
		return s.Sel.Name == "APIServicePriority"
	}
	id, ok := m.Value.(*ast.Ident)
	return ok && id.Name == "APIServicePriority"
}

// fields are the fields of a literal of a struct.
func fields(t *testing.T, e ast.Expr) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, e := range e.(*ast.CompositeLit).Elts {
		pair := e.(*ast.KeyValueExpr)
		out[pair.Key.(*ast.Ident).Name] = strings.Trim(pair.Value.(*ast.BasicLit).Value, `"`)
	}
	return out
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
