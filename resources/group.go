package resources

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Group is an API group with its served versions, the preferred one first. Versions has no hidden types (Type.Hidden), and no version
// that has no others.
type Group struct {
	Name string
	// Priority orders groups in discovery, highest first; groups of equal priority are ordered by their names.
	Priority int
	Versions []*Version

	all    []*Version // those with only hidden types included
	served map[inVersion]*Served
	stored map[string]*Type // by resource name
	kinds  map[schema.GroupVersionKind]*Served
	memo   memo
}

// Memo returns the result of build for this group under a key, building it once. Catalogs share the groups that a change
// does not touch, and so also the results derived from them.
func (g *Group) Memo(key any, build func() (any, error)) (any, error) { return g.memo.get(key, build) }

// Types calls yield for every stored type of the group.
func (g *Group) Types(yield func(*Type) bool) {
	for _, t := range g.stored {
		if !yield(t) {
			return
		}
	}
}

// Defined reports whether objects define all types of the group (Type.Untyped).
func (g *Group) Defined() bool {
	for _, s := range g.served {
		if !s.Untyped {
			return false
		}
	}
	return len(g.served) > 0
}

// inVersion is a resource in a version of a group.
type inVersion struct{ version, resource string }

// Version is one served version of a group with its types, in the order of resource names.
type Version struct {
	schema.GroupVersion
	// Priority orders the versions of a group, highest first; equal ones stand in the order of Kubernetes versions
	// (v1 before v1beta1).
	Priority  int
	Resources []*Served

	hidden []*Served
}

// newGroup makes a group. It reuses each Served of the group before it (old, may be nil) that has not changed.
func newGroup(spec GroupSpec, old *Group) *Group {
	g := &Group{Name: spec.Name, Priority: spec.Priority, served: map[inVersion]*Served{}, stored: map[string]*Type{}, kinds: map[schema.GroupVersionKind]*Served{}}
	for _, vs := range spec.Versions {
		g.all = append(g.all, &Version{GroupVersion: schema.GroupVersion{Group: spec.Name, Version: vs.Version}, Priority: vs.Priority})
	}
	slices.SortStableFunc(g.all, func(a, b *Version) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	versions := servedIn(g.all, spec)
	for _, vs := range spec.Versions {
		v := g.all[slices.IndexFunc(g.all, func(v *Version) bool { return v.Version == vs.Version })]
		for _, t := range vs.Types {
			g.serve(v, newServed(t, v.GroupVersion, versions[t.Resource], old))
		}
		slices.SortFunc(v.Resources, func(a, b *Served) int { return cmp.Compare(a.Resource, b.Resource) })
	}
	for _, v := range g.all {
		if len(v.Resources) > 0 || len(v.hidden) == 0 {
			g.Versions = append(g.Versions, v)
		}
	}
	return g
}

// serve adds a type in a version to a group that is under construction.
func (g *Group) serve(v *Version, s *Served) {
	if s.Hidden {
		v.hidden = append(v.hidden, s)
	} else {
		v.Resources = append(v.Resources, s)
	}
	g.served[inVersion{v.Version, s.Resource}] = s
	if !s.Stored() {
		return
	}
	g.kinds[s.GroupVersionKind] = s
	if _, known := g.stored[s.Resource]; !known || s.StorageVersion == v.GroupVersion {
		g.stored[s.Resource] = s.Type
	}
}

// isHidden tells whether all types of the group are hidden.
func (g *Group) isHidden() bool { return len(g.Versions) == 0 && len(g.all) > 0 }

// servedIn returns the versions in which each resource is served, in their order.
func servedIn(order []*Version, spec GroupSpec) map[string][]schema.GroupVersion {
	types := map[string][]*Type{}
	for _, vs := range spec.Versions {
		types[vs.Version] = vs.Types
	}
	all := map[string][]schema.GroupVersion{}
	for _, v := range order {
		for _, t := range types[v.Version] {
			all[t.Resource] = append(all[t.Resource], v.GroupVersion)
		}
	}
	return all
}

// spec is the GroupSpec that makes the group again. Its slices are the caller's own.
func (g *Group) spec() *GroupSpec {
	spec := &GroupSpec{Name: g.Name, Priority: g.Priority}
	for _, v := range g.all {
		vs := VersionSpec{Version: v.Version, Priority: v.Priority}
		for _, s := range v.Resources {
			vs.Types = append(vs.Types, s.Type)
		}
		for _, s := range v.hidden {
			vs.Types = append(vs.Types, s.Type)
		}
		spec.Versions = append(spec.Versions, vs)
	}
	return spec
}

// without returns what the group serves and its replacement (nil: none) no longer serves, or serves with other bytes, and what it only serves
// without some selectable fields (narrowed).
func (g *Group) without(after *Group) (ended, narrowed []*Served) {
	if g == nil {
		return nil, nil
	}
	for in, s := range g.served {
		switch {
		case after == nil || after.served[in] == nil || after.served[in].life != s.life:
			ended = append(ended, s)
		case after.served[in].selects != s.selects && s.selects != nil:
			narrowed = append(narrowed, s)
		}
	}
	return ended, narrowed
}
