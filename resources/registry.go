package resources

import (
	"sort"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Registry is the set of resource types that exist now. Types come and go while the server runs, so whoever needs a
// consistent view takes a Catalog once per request and keeps nothing longer than that; what is derived from a Catalog
// (discovery, OpenAPI) is cached under its identity.
type Registry struct {
	mu      sync.Mutex // serialises changes
	current atomic.Pointer[Catalog]
}

// Catalog is one immutable state of a Registry.
type Catalog struct {
	groups []*Group
	served map[schema.GroupVersionResource]*Served
	types  map[string]*Type

	memo     sync.Map
	replaced chan struct{}
}

// Group is an API group with its served versions, the preferred one first.
type Group struct {
	Name string
	// Priority orders groups in discovery, highest first; groups of equal priority stand in the order of their names.
	Priority int
	Versions []*Version
}

// Version is one served version of a group with what it serves, in the order of resource names.
type Version struct {
	schema.GroupVersion
	// Priority orders the versions of a group, highest first; equal ones stand in the order of Kubernetes versions
	// (v1 before v1beta1).
	Priority  int
	Resources []*Served
}

// Served is a type as one version of a group shows it.
type Served struct {
	*Type
	schema.GroupVersionKind
}

// GVR is the resource in the version it is served in.
func (s *Served) GVR() schema.GroupVersionResource {
	return s.GroupVersion().WithResource(s.Resource)
}

// GroupSpec says at which priorities a group and its versions are served, and what.
type GroupSpec struct {
	Name     string
	Priority int
	Versions []VersionSpec
}

// VersionSpec is one version of a GroupSpec.
type VersionSpec struct {
	Version  string
	Priority int
	Types    []*Type
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{}
	r.current.Store(buildCatalog(nil))
	return r
}

// Catalog returns the present state.
func (r *Registry) Catalog() *Catalog { return r.current.Load() }

// SetGroup adds a group or replaces it whole.
func (r *Registry) SetGroup(spec GroupSpec) { r.SetGroups([]GroupSpec{spec}) }

// SetGroups adds or replaces several groups in one step.
func (r *Registry) SetGroups(specs []GroupSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byName := map[string]*Group{}
	for _, g := range r.Catalog().groups {
		byName[g.Name] = g
	}
	for _, spec := range specs {
		byName[spec.Name] = newGroup(spec)
	}
	r.store(byName)
}

// RemoveGroup takes a group away.
func (r *Registry) RemoveGroup(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byName := map[string]*Group{}
	for _, g := range r.Catalog().groups {
		if g.Name != name {
			byName[g.Name] = g
		}
	}
	r.store(byName)
}

func (r *Registry) store(byName map[string]*Group) {
	groups := make([]*Group, 0, len(byName))
	for _, g := range byName {
		groups = append(groups, g)
	}
	sort.Slice(groups, func(i, j int) bool {
		if groups[i].Priority != groups[j].Priority {
			return groups[i].Priority > groups[j].Priority
		}
		return groups[i].Name < groups[j].Name
	})
	close(r.current.Swap(buildCatalog(groups)).replaced)
}

func newGroup(spec GroupSpec) *Group {
	g := &Group{Name: spec.Name, Priority: spec.Priority}
	for _, vs := range spec.Versions {
		v := &Version{GroupVersion: schema.GroupVersion{Group: spec.Name, Version: vs.Version}, Priority: vs.Priority}
		for _, t := range vs.Types {
			v.Resources = append(v.Resources, &Served{Type: t, GroupVersionKind: v.GroupVersion.WithKind(t.Kind)})
		}
		sort.Slice(v.Resources, func(i, j int) bool { return v.Resources[i].Resource < v.Resources[j].Resource })
		g.Versions = append(g.Versions, v)
	}
	sort.SliceStable(g.Versions, func(i, j int) bool {
		a, b := g.Versions[i], g.Versions[j]
		if a.Priority != b.Priority {
			return a.Priority > b.Priority
		}
		return version.CompareKubeAwareVersionStrings(a.Version, b.Version) > 0
	})
	return g
}

func buildCatalog(groups []*Group) *Catalog {
	c := &Catalog{groups: groups, served: map[schema.GroupVersionResource]*Served{}, types: map[string]*Type{},
		replaced: make(chan struct{})}
	for _, g := range groups {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				c.served[s.GVR()] = s
				if s.Stored() {
					c.types[s.ResourceName()] = s.Type
				}
			}
		}
	}
	return c
}

// Replaced is closed when the registry has moved on to another catalog.
func (c *Catalog) Replaced() <-chan struct{} { return c.replaced }

// Groups returns the groups in the order of discovery.
func (c *Catalog) Groups() []*Group { return c.groups }

// Lookup finds what a version of a group serves under a resource name.
func (c *Catalog) Lookup(gvr schema.GroupVersionResource) (*Served, bool) {
	s, ok := c.served[gvr]
	return s, ok
}

// Type finds a stored type by its identity in the store.
func (c *Catalog) Type(resource string) (*Type, bool) {
	t, ok := c.types[resource]
	return t, ok
}

// Types calls yield for every stored type.
func (c *Catalog) Types(yield func(*Type) bool) {
	for _, t := range c.types {
		if !yield(t) {
			return
		}
	}
}

// Group finds a group by name.
func (c *Catalog) Group(name string) (*Group, bool) {
	for _, g := range c.groups {
		if g.Name == name {
			return g, true
		}
	}
	return nil, false
}

// Memo returns what build made of this catalog under a key, building it once. It is how derived documents live exactly
// as long as the state they describe.
func (c *Catalog) Memo(key any, build func() (any, error)) (any, error) {
	type result struct {
		once sync.Once
		v    any
		err  error
	}
	r, _ := c.memo.LoadOrStore(key, &result{})
	res := r.(*result)
	res.once.Do(func() { res.v, res.err = build() })
	return res.v, res.err
}
