package upstream

import (
	"go/ast"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestServiceHooksUseNoStorage follows upstream's hooks through the methods that they call: they use only the fields of
// the storage of Services that ServiceRules sets. There is no store, and there are no endpoints and no pods.
func TestServiceHooksUseNoStorage(t *testing.T) {
	files := upstreamtest.ParsePackage(t, "k8s.io/kubernetes/pkg/registry/core/service/storage")
	methods := map[string]*ast.FuncDecl{} // methods of *REST
	for _, file := range files {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			if of, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok && of.X.(*ast.Ident).Name == "REST" {
				methods[f.Name.Name] = f
			}
		}
	}
	touched, seen := map[string]bool{}, map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		receiver := methods[name].Recv.List[0].Names[0].Name
		selected := map[*ast.Ident]bool{}
		ast.Inspect(methods[name].Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				x, ok := n.X.(*ast.Ident)
				if !ok || x.Name != receiver {
					return true
				}
				selected[x] = true
				if methods[n.Sel.Name] != nil {
					follow(n.Sel.Name)
				} else {
					touched[n.Sel.Name] = true
				}
			case *ast.Ident:
				if n.Name == receiver && !selected[n] {
					touched["all of it"] = true // it is passed on
				}
			}
			return true
		})
	}
	for _, hook := range []string{"beginCreate", "beginUpdate", "afterDelete"} {
		if methods[hook] == nil {
			t.Fatalf("there is no %s any more", hook)
		}
		follow(hook)
	}
	if diff := cmp.Diff([]string{"alloc", "primaryIPFamily"}, slices.Sorted(maps.Keys(touched))); diff != "" {
		t.Errorf("the hooks touch: %s", diff)
	}
	if len(seen) < 4 {
		t.Errorf("only %v were followed", slices.Sorted(maps.Keys(seen)))
	}
}
