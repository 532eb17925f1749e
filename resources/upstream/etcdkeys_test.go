package upstream

import (
	"go/ast"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestEtcdPrefixesAreUpstreams compares the prefixes with those in the source of kube-apiserver.
func TestEtcdPrefixesAreUpstreams(t *testing.T) {
	value, _ := upstreamtest.Variable(t, upstreamtest.ParsePackage(t, "k8s.io/kubernetes/pkg/kubeapiserver"), "SpecialDefaultResourcePrefixes")
	published := map[string]string{}
	for _, e := range value.(*ast.CompositeLit).Elts {
		pair, gr := e.(*ast.KeyValueExpr), schema.GroupResource{}
		for _, field := range pair.Key.(*ast.CompositeLit).Elts {
			switch field := field.(*ast.KeyValueExpr); field.Key.(*ast.Ident).Name {
			case "Group":
				gr.Group = upstreamtest.Text(t, field.Value)
			case "Resource":
				gr.Resource = upstreamtest.Text(t, field.Value)
			}
		}
		published[gr.String()] = upstreamtest.Text(t, pair.Value)
	}
	if diff := cmp.Diff(published, EtcdPrefixes); diff != "" {
		t.Errorf("prefixes of keys (-upstream +ours): %s", diff)
	}
}
