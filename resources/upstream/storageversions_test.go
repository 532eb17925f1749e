package upstream

import (
	"go/ast"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestStorageVersionsAreUpstreams compares the versions with the overrides in the source of kube-apiserver, which are written as
// group.Resource("name").WithVersion("v1"). TestDiscoveryIsUpstreams (resources/builtin) compares the resulting discovery with
// the published documents.
func TestStorageVersionsAreUpstreams(t *testing.T) {
	published := map[schema.GroupResource]string{}
	for _, file := range upstreamtest.ParsePackage(t, "k8s.io/kubernetes/pkg/kubeapiserver") {
		known := upstreamtest.Imports(t, file)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			with, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || with.Sel.Name != "WithVersion" {
				return true
			}
			resource := with.X.(*ast.CallExpr)
			pkg := known[resource.Fun.(*ast.SelectorExpr).X.(*ast.Ident).Name]
			group, _ := upstreamtest.Variable(t, upstreamtest.ParsePackage(t, pkg), "GroupName")
			gr := schema.GroupResource{Group: upstreamtest.Text(t, group), Resource: upstreamtest.Text(t, resource.Args[0])}
			published[gr] = upstreamtest.Text(t, call.Args[0])
			return true
		})
	}
	ours := maps.Clone(StorageVersions)
	delete(ours, schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"})
	if diff := cmp.Diff(published, ours); diff != "" {
		t.Errorf("storage versions (-upstream +ours): %s", diff)
	}
}
