package upstream

import (
	"go/ast"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestKubeletAddressesAreUpstreams compares the order with that in the source of kube-apiserver.
func TestKubeletAddressesAreUpstreams(t *testing.T) {
	names := map[string]v1.NodeAddressType{"NodeHostName": v1.NodeHostName, "NodeInternalDNS": v1.NodeInternalDNS,
		"NodeInternalIP": v1.NodeInternalIP, "NodeExternalDNS": v1.NodeExternalDNS, "NodeExternalIP": v1.NodeExternalIP}
	var published []string
	for _, file := range upstreamtest.ParsePackage(t, "k8s.io/kubernetes/cmd/kube-apiserver/app/options") {
		ast.Inspect(file, func(n ast.Node) bool {
			pair, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "PreferredAddressTypes" {
				for _, e := range pair.Value.(*ast.CompositeLit).Elts {
					published = append(published, string(names[e.(*ast.CallExpr).Args[0].(*ast.SelectorExpr).Sel.Name]))
				}
			}
			return true
		})
	}
	if diff := cmp.Diff(published, KubeletAddresses()); diff != "" {
		t.Errorf("addresses (-upstream +ours): %s", diff)
	}
}
