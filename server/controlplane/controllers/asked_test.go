package controllers_test

import (
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// providing names the types that controllers get in place of upstream's, by the interface, with the file that has their methods. Each embeds a nil
// interface for the methods that it does not have.
var providing = map[string]struct{ file, receiver string }{
	"k8s.io/client-go/kubernetes.Interface":               {"../../client.go", "client"},
	"k8s.io/client-go/informers.SharedInformerFactory":    {"quotas_measured.go", "quotaInformers"},
	"k8s.io/client-go/informers/resource.Interface":       {"quotas_measured.go", "resourceInformers"},
	"k8s.io/client-go/tools/cache.SharedIndexInformer":    {"hosted/informers.go", "informer"},
	"k8s.io/client-go/tools/cache.SharedInformer":         {"hosted/informers.go", "informer"},
	"k8s.io/client-go/tools/cache.Indexer":                {"../../../resources/indexer/indexer.go", "Indexer"},
	"k8s.io/client-go/tools/cache.Store":                  {"../../../resources/indexer/indexer.go", "Indexer"},
	"k8s.io/client-go/tools/cache.GenericLister":          {"quotas_measured.go", "countedLister"},
	"k8s.io/client-go/tools/cache.GenericNamespaceLister": {"quotas_measured.go", "countedInNamespace"},
}

// unreached lists uses of methods that are not provided, which no controller here comes to, with the reasons.
var unreached = []string{
	// The controllers that create Pods and revisions of others use these, which are not here.
	"k8s.io/kubernetes/pkg/controller AppsV1", "k8s.io/kubernetes/pkg/controller GetIndexers",
	"k8s.io/kubernetes/pkg/controller Add", "k8s.io/kubernetes/pkg/controller Delete",
	// After AddIndexers has failed, which it does not here.
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core GetIndexers",
	// The monitors of the controller of quotas, which it makes when it can ask which types there are (DiscoveryFunc).
	"k8s.io/kubernetes/pkg/controller/resourcequota GetController",
	// The evaluators of quotas list the objects of a namespace.
	"k8s.io/apiserver/pkg/quota/v1/generic Get", "k8s.io/apiserver/pkg/quota/v1/generic List",
}

// TestWhatControllersAsk finds in the source of the controllers from kube-controller-manager's packages which methods they use of their client, their
// informers and their listers. One that is new would be a nil pointer, or a type that is not followed, at its first use.
func TestWhatControllersAsk(t *testing.T) {
	used := upstreamtest.Methods(t, ".", func(pkg string) bool {
		return strings.HasPrefix(pkg, "k8s.io/kubernetes/pkg/controller") || strings.HasPrefix(pkg, "k8s.io/kubernetes/pkg/quota/") ||
			strings.HasPrefix(pkg, "k8s.io/apiserver/pkg/quota/")
	})
	provided, excused := 0, map[string]bool{}
	for of, p := range providing {
		has := methodsIn(t, p.file, p.receiver)
		for method, users := range used[of] {
			for _, user := range users {
				switch use := user + " " + method; {
				case slices.Contains(has, method):
					provided++
				case slices.Contains(unreached, use):
					excused[use] = true
				default:
					t.Errorf("%s uses %s.%s, which %s in %s does not have", user, of, method, p.receiver, p.file)
				}
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(unreached)), slices.Sorted(maps.Keys(excused))); diff != "" || provided < 30 {
		t.Errorf("%d uses are provided for; those that no controller comes to (-listed +found): %s", provided, diff)
	}
	// Informers that a controller gets as arguments are known to the compiler, those that it takes from a factory have to be followed (newQuotas).
	factories := []string{}
	for of, methods := range used {
		group, isFactory := strings.CutPrefix(of, "k8s.io/client-go/informers/")
		for method := range methods {
			if isFactory && strings.Count(group, "/") == 1 && strings.HasSuffix(group, ".Interface") {
				factories = append(factories, strings.TrimSuffix(group, "Interface")+method)
			}
			if strings.HasPrefix(of, "k8s.io/client-go/kubernetes/typed/") && method == "Watch" {
				t.Errorf("%s.%s is used by %v: the client supports no watches", of, method, methods[method])
			}
		}
	}
	slices.Sort(factories)
	if diff := cmp.Diff([]string{"core/v1.Pods", "resource/v1.DeviceClasses", "resource/v1.ResourceClaims"}, factories); diff != "" {
		t.Errorf("informers from factories (-known +upstream): %s", diff)
	}
}

// methodsIn returns the names of the methods of a type in a file.
func methodsIn(t *testing.T, file, receiver string) (names []string) {
	t.Helper()
	for _, decl := range upstreamtest.ParseFile(t, filepath.FromSlash(file)).Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv == nil {
			continue
		}
		of := f.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok && id.Name == receiver {
			names = append(names, f.Name.Name)
		}
	}
	return names
}
