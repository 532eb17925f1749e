package upstream

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestPluginsAreUpstreams compares the names of the plugins, their order, and which are on by default, with the source
// of kube-apiserver. It is read, not linked: the package depends on all of kube-apiserver.
func TestPluginsAreUpstreams(t *testing.T) {
	files := upstreamtest.ParsePackage(t, "k8s.io/kubernetes/pkg/kubeapiserver/options")
	value, file := upstreamtest.Variable(t, files, "AllOrderedPlugins")
	names := pluginNames(t, file, value.(*ast.CompositeLit).Elts)
	var on []string
	ast.Inspect(file, func(n ast.Node) bool {
		if n, ok := n.(*ast.AssignStmt); ok {
			if left, ok := n.Lhs[0].(*ast.Ident); ok && left.Name == "defaultOnPlugins" {
				on = pluginNames(t, file, n.Rhs[0].(*ast.CallExpr).Args)
			}
		}
		return true
	})
	var ours, oursOn []string
	for _, p := range AdmissionPlugins() {
		ours = append(ours, p.Name)
		if p.On {
			oursOn = append(oursOn, p.Name)
		}
	}
	if diff := cmp.Diff(names, ours); diff != "" {
		t.Errorf("order (-upstream +ours): %s", diff)
	}
	slices.Sort(on)
	slices.Sort(oursOn)
	if diff := cmp.Diff(on, oursOn); diff != "" || len(on) == 0 {
		t.Errorf("on by default (-upstream +ours): %s", diff)
	}
}

// pluginNames are the values of expressions like limitranger.PluginName.
func pluginNames(t *testing.T, file *ast.File, expressions []ast.Expr) (names []string) {
	t.Helper()
	known := upstreamtest.Imports(t, file)
	for _, e := range expressions {
		selector := e.(*ast.SelectorExpr)
		value, _ := upstreamtest.Variable(t, upstreamtest.ParsePackage(t, known[selector.X.(*ast.Ident).Name]), selector.Sel.Name)
		names = append(names, upstreamtest.Text(t, value))
	}
	return names
}
