package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// otherHooks are the post-start hooks of kube-apiserver that a server with the default flags does not have, with the reasons.
var otherHooks = []string{
	// kube-apiserver has them with flags, as here: --proxy-client-cert-file, --encryption-provider-config-automatic-reload, and
	// --enable-priority-and-fairness=false.
	"aggregator-reload-proxy-client-cert", "start-encryption-provider-config-automatic-reload", "max-in-flight-filter",
	// It has them with gates that are off by default, CoordinatedLeaderElection and StorageVersionAPI, or with --peer-ca-file.
	"start-kube-apiserver-coordinated-leader-election-controller",
	"mixed-version-proxy-handler", "local-discovery-cache-sync", "peer-discovery-workers",
	"built-in-resources-storage-version-updater",
}

// compareHooks compares post-start hooks, which clients see as checks of health, with those in the source of kube-apiserver.
func compareHooks(t *testing.T, ours []string) {
	t.Helper()
	var published []string
	for _, root := range []string{"k8s.io/kubernetes/pkg/controlplane", "k8s.io/kubernetes/pkg/registry", "k8s.io/kube-aggregator/pkg/apiserver",
		"k8s.io/apiextensions-apiserver/pkg/apiserver", "k8s.io/apiserver/pkg/server"} {
		upstreamtest.GoFiles(t, upstreamtest.PackageDir(t, root), func(name string) {
			published = append(published, hooksOf(t, upstreamtest.ParseFile(t, name))...)
		})
	}
	slices.Sort(published)
	want := slices.Sorted(slices.Values(append(ours, otherHooks...)))
	if diff := cmp.Diff(slices.Compact(published), want); diff != "" {
		t.Errorf("hooks (-upstream +ours): %s", diff)
	}
}

// hooksOf returns the hooks that a file adds, or that a provider of a storage in it has.
func hooksOf(t *testing.T, file *ast.File) (names []string) {
	t.Helper()
	values := map[string]string{} // of the constants and variables of the file
	note := func(name, value ast.Expr) {
		id, isName := name.(*ast.Ident)
		if text, ok := value.(*ast.BasicLit); ok && isName && text.Kind == token.STRING {
			values[id.Name] = upstreamtest.Text(t, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, value := range n.Values {
				note(n.Names[i], value)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == len(n.Rhs) {
				for i, value := range n.Rhs {
					note(n.Lhs[i], value)
				}
			}
		}
		return true
	})
	hook := func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BasicLit:
			names = append(names, upstreamtest.Text(t, e))
		case *ast.Ident: // name: the hook of a provider, which is found there, or one that was added before
			if values[e.Name] != "" {
				names = append(names, values[e.Name])
			} else if e.Name != "name" {
				t.Errorf("the hook %s is not in the file that adds it", e.Name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(f.Sel.Name, "AddPostStartHook") {
				hook(n.Args[0])
			}
		case *ast.FuncDecl:
			if n.Name.Name == "PostStartHook" && n.Body != nil {
				hook(n.Body.List[len(n.Body.List)-1].(*ast.ReturnStmt).Results[0])
			}
		}
		return true
	})
	return names
}
