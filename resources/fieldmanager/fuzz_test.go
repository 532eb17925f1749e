package fieldmanager

import (
	"sort"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// families groups the kinds by group, with the versions of each, the preferred one first.
func families(scheme *runtime.Scheme) (names []schema.GroupKind, versions map[schema.GroupKind][]schema.GroupVersion) {
	versions = map[schema.GroupKind][]schema.GroupVersion{}
	known := map[schema.GroupVersionKind]bool{}
	for _, kind := range objectKinds(scheme) {
		known[kind] = true
		if len(versions[kind.GroupKind()]) == 0 {
			names = append(names, kind.GroupKind())
			versions[kind.GroupKind()] = []schema.GroupVersion{kind.GroupVersion()}
		}
	}
	for gk := range versions {
		versions[gk] = nil
		for _, gv := range scheme.PrioritizedVersionsForGroup(gk.Group) {
			if known[gv.WithKind(gk.Kind)] {
				versions[gk] = append(versions[gk], gv)
			}
		}
	}
	sort.Slice(names, func(i, j int) bool { return names[i].String() < names[j].String() })
	return names, versions
}

func (s *subject) run(steps int) {
	s.create()
	for range steps {
		switch {
		case s.live == nil || s.rand.Intn(12) == 0:
			s.create()
		case s.rand.Intn(3) == 0:
			s.apply()
		default:
			s.update()
		}
	}
}

// TestAgreesWithUpstream runs random writes to every built-in kind through upstream's manager and ours. It also checks
// that ours answers most of them itself, or it would compare upstream with upstream.
func TestAgreesWithUpstream(t *testing.T) {
	fallbacks, steps := map[string]int{}, map[string]int{}
	for _, world := range []*world{coreWorld, extensionWorld} {
		names, versions := families(world.scheme)
		for i, gk := range names {
			t.Run(gk.String(), func(t *testing.T) {
				s := newSubject(t, world, versions[gk], gk.Kind, int64(i))
				s.run(12)
				for op, n := range s.steps {
					steps[op] += n
				}
				for reason, n := range s.fallbacks {
					fallbacks[reason] += n
					op, _, _ := strings.Cut(reason, ":")
					steps[op+" left to upstream"] += n
				}
			})
		}
	}
	t.Logf("%v, for these reasons: %v", steps, fallbacks)
	for _, op := range []string{"create", "update", "apply"} {
		if all, left := steps[op], steps[op+" left to upstream"]; left*2 > all {
			t.Errorf("%s: %d of %d were left to upstream", op, left, all)
		}
	}
}

// FuzzAgreesWithUpstream is TestAgreesWithUpstream without end.
func FuzzAgreesWithUpstream(f *testing.F) {
	names, versions := families(coreWorld.scheme)
	f.Add(int64(1), uint16(1))
	f.Fuzz(func(t *testing.T, seed int64, kind uint16) {
		gk := names[int(kind)%len(names)]
		newSubject(t, coreWorld, versions[gk], gk.Kind, seed).run(12)
	})
}
