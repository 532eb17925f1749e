package resources_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin/builtintest"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// FuzzDeclared: declarative validation has the same result with the fast path as without, for every type and path with declarations, and
// neither changes the object.
func FuzzDeclared(f *testing.F) {
	types := builtintest.StoredTypes(f)
	for i := range types {
		f.Add(int64(i), uint16(i), i%2 == 0, uint8(i%3))
	}
	f.Fuzz(func(t *testing.T, seed int64, kind uint16, update bool, path uint8) {
		s := types[int(kind)%len(types)]
		info := &genericapirequest.RequestInfo{APIGroup: s.GroupVersion().Group, APIVersion: s.GroupVersion().Version}
		var strategy any = s.Type.CreateStrategy
		op, old := operation.Create, runtime.Object(nil)
		obj := decodeRandom(t, s, seed)
		if update {
			strategy, op, old = s.Type.UpdateStrategy, operation.Update, decodeRandom(t, s, seed>>1)
			if subs := s.Subresources; path > 0 && len(subs) > 0 {
				names := slices.Sorted(maps.Keys(subs))
				if sub := subs[names[int(path)%len(names)]]; sub.UpdateStrategy != nil {
					strategy, info.Subresource = sub.UpdateStrategy, sub.Name
				}
			}
		}
		declares, ok := strategy.(rest.DeclarativeValidationStrategy)
		if !ok {
			return
		}
		// Upstream logs errors that only the tags find; the hand-written validation that also finds them does not run here.
		ctx := genericapirequest.WithRequestInfo(klog.NewContext(t.Context(), klog.New(nil)), info)
		was := obj.DeepCopyObject()
		// Upstream walks maps, so the order of errors varies.
		ask := func(on bool) (found []string) {
			defer fastpath.Declared.Turn(on)()
			for _, err := range resources.ValidateDeclared(resources.Briefly(strategy), ctx, obj, old, nil, op, declares.DeclarativeValidationConfig(ctx, obj, old)) {
				found = append(found, err.Error())
			}
			slices.Sort(found)
			return found
		}
		if diff := cmp.Diff(ask(false), ask(true)); diff != "" {
			t.Errorf("%s (-without +by the fast path): %s", s.Type.Kind, diff)
		}
		if diff := cmp.Diff(encoded(t, was), encoded(t, obj)); diff != "" {
			t.Errorf("%s was changed: %s", s.Type.Kind, diff)
		}
	})
}

func decodeRandom(t *testing.T, s *resources.Served, seed int64) runtime.Object {
	t.Helper()
	obj, err := s.DecodeHub(resources.LoadObject(resources.Key{}, 1, builtintest.Random(t, s, seed), nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestDeclaredIsCovered: the fast path finds pods, leases and deployments valid.
func TestDeclaredIsCovered(t *testing.T) {
	t.Cleanup(fastpath.Declared.Turn(true))
	covered := map[string]bool{}
	for _, s := range builtintest.StoredTypes(t) {
		if _, ok := s.Type.CreateStrategy.(rest.DeclarativeValidationStrategy); !ok {
			continue
		}
		info := &genericapirequest.RequestInfo{APIGroup: s.GroupVersion().Group, APIVersion: s.GroupVersion().Version}
		ctx := genericapirequest.WithRequestInfo(klog.NewContext(t.Context(), klog.New(nil)), info)
		before := fastpath.Declared.Fallbacks()
		errs := resources.ValidateDeclared(resources.Briefly(s.Type.CreateStrategy), ctx, s.New(), nil, nil, operation.Create, rest.DeclarativeValidationConfig{})
		covered[s.Type.Kind] = len(errs) == 0 && fastpath.Declared.Fallbacks() == before
	}
	for _, kind := range []string{"Pod", "Lease", "Deployment"} {
		if !covered[kind] {
			t.Errorf("%s is not covered: %v", kind, covered)
		}
	}
}

// TestUpstreamDeclaresInOneWay: no strategy of upstream's has its own way of declarative validation, which the fast path would miss.
func TestUpstreamDeclaresInOneWay(t *testing.T) {
	found := upstreamtest.Find(t, regexp.MustCompile(`\) ValidateDeclaratively\(`), 2000,
		"k8s.io/kubernetes/pkg", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator")
	if diff := cmp.Diff([]string{"k8s.io/apiserver/pkg/registry/rest/validate.go"}, found); diff != "" {
		t.Errorf("ValidateDeclaratively: %s", diff)
	}
}
