package builtin

import (
	"go/ast"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestServedByDefaultIsUpstreams compares the versions that are served by default, and those that are known but not
// served, with the lists in the source of kube-apiserver.
func TestServedByDefaultIsUpstreams(t *testing.T) {
	files := upstreamtest.ParsePackage(t, "k8s.io/kubernetes/pkg/controlplane")
	want := map[string]bool{
		// The groups of the servers behind kube-apiserver's own, which have one version each.
		"apiextensions.k8s.io/v1": true, "apiregistration.k8s.io/v1": true,
	}
	lists := 0
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if name := n.Names[0].Name; strings.HasSuffix(name, "ByDefault") {
					lists++
					for _, gv := range versionsOf(t, file, n.Values[0].(*ast.CompositeLit)) {
						want[gv.String()] = strings.HasSuffix(name, "EnabledByDefault")
					}
				}
			case *ast.CallExpr:
				// Single resources, as in --runtime-config, are in none of the lists.
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "EnableResources" || f.Sel.Name == "DisableResources") {
					t.Errorf("kube-apiserver now calls %s for what is served by default", f.Sel.Name)
				}
			}
			return true
		})
	}
	if lists != 6 || len(want) < 30 {
		t.Errorf("%d lists with %d versions", lists, len(want))
	}
	got := map[string]bool{}
	for gv := range upstream.Priorities {
		got[gv.String()] = false
	}
	for _, gv := range servedByDefault {
		got[gv] = true
	}
	for gv, on := range want {
		// A list that is off by default may have versions that have no types any more.
		if _, known := got[gv]; !known && !on {
			delete(want, gv)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("served by default (-upstream +ours): %s", diff)
	}
}

// versionsOf reads a list of expressions like appsv1.SchemeGroupVersion.
func versionsOf(t *testing.T, file *ast.File, list *ast.CompositeLit) (versions []schema.GroupVersion) {
	t.Helper()
	known := upstreamtest.Imports(t, file)
	for _, e := range list.Elts {
		pkg := known[e.(*ast.SelectorExpr).X.(*ast.Ident).Name]
		name, _ := upstreamtest.Variable(t, upstreamtest.ParsePackage(t, pkg), "GroupName")
		versions = append(versions, schema.GroupVersion{Group: upstreamtest.Text(t, name), Version: pkg[strings.LastIndex(pkg, "/")+1:]})
	}
	return versions
}

// TestDeletesAnswerAsUpstream compares the types whose deletes answer with the object with the source of upstream's
// storages (ReturnDeletedObject).
func TestDeletesAnswerAsUpstream(t *testing.T) {
	want := map[string]bool{}
	upstreamtest.GoFiles(t, upstreamtest.PackageDir(t, "k8s.io/kubernetes/pkg/registry"), func(name string) {
		ast.Inspect(upstreamtest.ParseFile(t, name), func(n ast.Node) bool {
			store, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			resource, returns := "", false
			for _, e := range store.Elts {
				pair, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				switch key, _ := pair.Key.(*ast.Ident); {
				case key == nil:
				case key.Name == "DefaultQualifiedResource":
					if call, ok := pair.Value.(*ast.CallExpr); ok { // for events it is a variable
						resource = upstreamtest.Text(t, call.Args[0])
					}
				case key.Name == "ReturnDeletedObject":
					returns = true
				}
			}
			if resource != "" {
				want[resource] = want[resource] || returns
			}
			return true
		})
	})
	if len(want) < 60 {
		t.Fatalf("upstream has %d storages", len(want))
	}
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, featuregatetesting.FeatureOverrides{"AllAlpha": true, "AllBeta": true})
	seen := map[string]bool{}
	for _, g := range serving(t, map[string]string{"api/all": "true"}).Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				seen[s.Resource] = true
				ours := s.Type.ReturnDeletedObject || len(s.Type.ReturnDeletedIn) > 0 // in the versions of the storages
				if upstreams, known := want[s.Resource]; known && s.Stored() && ours != upstreams {
					t.Errorf("%s: a delete answers with the object: %v, upstream: %v", s.Resource, ours, upstreams)
				}
			}
		}
	}
	for resource := range want {
		if !seen[resource] && resource != "carps" { // a type of upstream's own tests
			t.Errorf("upstream stores %s", resource)
		}
	}
}
