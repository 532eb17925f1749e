package resources

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// After any changes, groups are found by their names and are in their order, and the groups that changed since any earlier
// catalog are those that are different.
func TestGroupsOfCatalogs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 8))
	r := NewRegistry()
	model := map[string]int{} // priorities by name
	catalogs := []*Catalog{r.Catalog()}
	for range 400 {
		r.Edit(func(e *Edit) {
			for range random.IntN(3) * random.IntN(60) {
				name := fmt.Sprint("g", random.IntN(200))
				if random.IntN(3) == 0 {
					e.RemoveGroup(name)
					delete(model, name)
					continue
				}
				model[name] = random.IntN(3)
				e.SetGroup(GroupSpec{Name: name, Priority: model[name]})
			}
		})
		c := r.Catalog()
		var names []string
		for _, g := range c.Groups() {
			names = append(names, g.Name)
			if found, ok := c.Group(g.Name); !ok || found != g || g.Priority != model[g.Name] {
				t.Fatalf("%s is found: %t, as %p, want %p; its priority is %d, want %d", g.Name, ok, found, g, g.Priority, model[g.Name])
			}
		}
		if !slices.IsSortedFunc(c.Groups(), inDiscovery) || !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(model))) {
			t.Fatalf("the groups are %q", names)
		}
		for i := range 200 {
			name := fmt.Sprint("g", i)
			if _, want := model[name]; !want {
				if g, ok := c.Group(name); ok || g != nil {
					t.Fatalf("%s is found after it was removed", name)
				}
			}
		}
		catalogs = append(catalogs, c)
		checkSince(t, c, catalogs[random.IntN(len(catalogs))])
		checkSince(t, c, catalogs[max(0, len(catalogs)-2)])
	}
}

func checkSince(t *testing.T, now, before *Catalog) {
	t.Helper()
	without := func(of, other *Catalog) (groups []*Group) {
		for _, g := range of.Groups() {
			if !slices.Contains(other.Groups(), g) {
				groups = append(groups, g)
			}
		}
		return groups
	}
	gone, come := now.Since(before)
	if !slices.Equal(gone, without(before, now)) || !slices.Equal(come, without(now, before)) {
		t.Fatalf("%d are gone, want %d; %d have come, want %d", len(gone), len(without(before, now)), len(come), len(without(now, before)))
	}
}
