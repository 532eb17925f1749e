package resources

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Registry is the set of resource types that exist now. Types come and go while the server runs, so code that needs a consistent view
// takes a Catalog once per request and keeps nothing longer than that. Results derived from a Catalog (discovery, OpenAPI) are cached
// with it, results derived from one served type with that (Served.Memo).
//
// The cost of a change depends only on the groups that it touches: the catalogs before and after it share all others.
type Registry struct {
	mu        sync.Mutex // serialises changes
	current   atomic.Pointer[Catalog]
	whenEnded []func([]*Served)
}

// GroupSpec is a group with its versions, their priorities and their types.
type GroupSpec struct {
	Name     string
	Priority int
	Versions []VersionSpec
}

// VersionSpec is one version of a GroupSpec.
type VersionSpec struct {
	Version  string
	Priority int
	// Types are served in the version. A type whose rules are the same in every version is in all of them; one that has rules per
	// version, as a custom resource, has a Type for each, all with the same GroupResource and StorageVersion.
	Types []*Type
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	r := &Registry{}
	r.current.Store(&Catalog{replaced: make(chan struct{})})
	return r
}

// Catalog returns the present state.
func (r *Registry) Catalog() *Catalog { return r.current.Load() }

// SetGroup adds a group or replaces it as a whole.
func (r *Registry) SetGroup(spec GroupSpec) { r.SetGroups([]GroupSpec{spec}) }

// SetGroups adds or replaces several groups in one step.
func (r *Registry) SetGroups(specs []GroupSpec) {
	r.Edit(func(e *Edit) {
		for _, spec := range specs {
			e.SetGroup(spec)
		}
	})
}

// RemoveGroup removes a group.
func (r *Registry) RemoveGroup(name string) {
	r.Edit(func(e *Edit) { e.RemoveGroup(name) })
}

// Edit makes several changes in one step: no request sees only some of them.
func (r *Registry) Edit(change func(*Edit)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.Catalog()
	e := &Edit{before: before, changed: map[string]*GroupSpec{}}
	change(e)
	after := &Catalog{groups: slices.Clone(before.groups), replaced: make(chan struct{})}
	changed := make(map[string]*Group, len(e.changed))
	var ended, narrowed []*Served
	for name, spec := range e.changed {
		old, _ := before.Group(name)
		after.remove(old)
		var now *Group
		if spec != nil {
			now = newGroup(*spec, old)
			after.insert(now)
		}
		changed[name] = now
		e, n := old.without(now)
		ended, narrowed = append(ended, e...), append(narrowed, n...)
	}
	after.byName = before.byName.with(changed)
	after.shown = withoutHidden(after.groups)
	close(r.current.Swap(after).replaced)
	for _, s := range ended {
		s.life.end()
	}
	for _, s := range slices.Concat(ended, narrowed) {
		if s.selects != nil {
			s.selects.end()
		}
	}
	if len(ended)+len(narrowed) > 0 {
		for _, f := range r.whenEnded {
			f(ended)
		}
	}
}

// WhenEnded registers f, which is called with the versions that have ended (Served.Ended) whenever some have, or a selection has
// (Served.SelectionEnded). f must not block, and must not change the Registry.
func (r *Registry) WhenEnded(f func(ended []*Served)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whenEnded = append(r.whenEnded, f)
}

// Edit is a pending change of a Registry.
type Edit struct {
	before  *Catalog
	changed map[string]*GroupSpec // nil: removed
}

// SetGroup adds a group or replaces it as a whole.
func (e *Edit) SetGroup(spec GroupSpec) { e.changed[spec.Name] = &spec }

// RemoveGroup removes a group.
func (e *Edit) RemoveGroup(name string) { e.changed[name] = nil }

// SetType adds a type to a version, or replaces the type with its name. A missing group or version is added with the given priorities,
// which existing ones keep.
func (e *Edit) SetType(gv schema.GroupVersion, groupPriority, versionPriority int, t *Type) {
	spec := e.group(gv.Group)
	if spec == nil {
		spec = &GroupSpec{Name: gv.Group, Priority: groupPriority}
	}
	i := slices.IndexFunc(spec.Versions, func(v VersionSpec) bool { return v.Version == gv.Version })
	if i < 0 {
		i = len(spec.Versions)
		spec.Versions = append(spec.Versions, VersionSpec{Version: gv.Version, Priority: versionPriority})
	}
	v := &spec.Versions[i]
	v.Types = append(withoutType(v.Types, t.Resource), t)
	e.changed[gv.Group] = spec
}

// RemoveType removes a type from a version. A version without types is removed, and so is a group without versions.
func (e *Edit) RemoveType(gvr schema.GroupVersionResource) {
	spec := e.group(gvr.Group)
	if spec == nil {
		return
	}
	for i := range spec.Versions {
		if v := &spec.Versions[i]; v.Version == gvr.Version {
			v.Types = withoutType(v.Types, gvr.Resource)
		}
	}
	spec.Versions = slices.DeleteFunc(spec.Versions, func(v VersionSpec) bool { return v.Version == gvr.Version && len(v.Types) == 0 })
	if len(spec.Versions) == 0 {
		spec = nil
	}
	e.changed[gvr.Group] = spec
}

// group is the group with the edit's changes so far, which the caller may change; nil when there is none.
func (e *Edit) group(name string) *GroupSpec {
	if spec, ok := e.changed[name]; ok {
		return spec
	}
	if g, ok := e.before.Group(name); ok {
		return g.spec()
	}
	return nil
}

// withoutHidden returns the groups that have types that are not hidden: usually all of them.
func withoutHidden(all []*Group) (shown []*Group) {
	if !slices.ContainsFunc(all, (*Group).isHidden) {
		return all
	}
	for _, g := range all {
		if !g.isHidden() {
			shown = append(shown, g)
		}
	}
	return shown
}

func withoutType(types []*Type, resource string) []*Type {
	return slices.DeleteFunc(types, func(t *Type) bool { return t.Resource == resource })
}

// Catalog is one immutable state of a Registry.
type Catalog struct {
	groups   []*Group
	shown    []*Group // without those whose types are all hidden
	byName   groupIndex
	memo     memo
	replaced chan struct{}
}

// insert and remove change a catalog that is under construction.
func (c *Catalog) insert(g *Group) {
	i, _ := slices.BinarySearchFunc(c.groups, g, inDiscovery)
	c.groups = slices.Insert(c.groups, i, g)
}

func (c *Catalog) remove(g *Group) {
	if g == nil {
		return
	}
	if i, found := slices.BinarySearchFunc(c.groups, g, inDiscovery); found {
		c.groups = slices.Delete(c.groups, i, i+1)
	}
}

// inDiscovery is the order of groups in discovery.
func inDiscovery(a, b *Group) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
}

// Replaced is closed when the registry has another catalog.
func (c *Catalog) Replaced() <-chan struct{} { return c.replaced }

// Groups returns the groups in the order of discovery, without those whose types are all hidden (Type.Hidden).
func (c *Catalog) Groups() []*Group { return c.shown }

// Group finds a group by name.
func (c *Catalog) Group(name string) (*Group, bool) {
	return c.byName.get(name)
}

// Serves tells whether a version of a group is served.
func (c *Catalog) Serves(gv schema.GroupVersion) bool {
	g, ok := c.Group(gv.Group)
	return ok && slices.ContainsFunc(g.Versions, func(v *Version) bool { return v.GroupVersion == gv })
}

// Lookup finds the served type of a resource in a version of a group.
func (c *Catalog) Lookup(gvr schema.GroupVersionResource) (*Served, bool) {
	g, ok := c.byName.get(gvr.Group)
	if !ok {
		return nil, false
	}
	s, ok := g.served[inVersion{gvr.Version, gvr.Resource}]
	return s, ok
}

// Type finds a stored type by its identity in the store. If the type has rules per version, it is the Type of the storage version.
func (c *Catalog) Type(resource string) (*Type, bool) {
	gr := schema.ParseGroupResource(resource)
	g, ok := c.byName.get(gr.Group)
	if !ok {
		return nil, false
	}
	t, ok := g.stored[gr.Resource]
	return t, ok
}

// Kind finds the stored type with a kind, in the kind's version.
func (c *Catalog) Kind(kind schema.GroupVersionKind) (*Served, bool) {
	g, ok := c.byName.get(kind.Group)
	if !ok {
		return nil, false
	}
	s, ok := g.kinds[kind]
	return s, ok
}

// Types calls yield for every stored type.
func (c *Catalog) Types(yield func(*Type) bool) {
	for _, g := range c.groups {
		for t := range g.Types {
			if !yield(t) {
				return
			}
		}
	}
}

// Since returns the groups of an earlier catalog that this one does not have, and those of this one that the earlier one did not have.
// A changed group is in both. It compares each group, not its types.
func (c *Catalog) Since(before *Catalog) (gone, come []*Group) {
	was, is := before.groups, c.groups
	for len(was) > 0 && len(is) > 0 {
		order := inDiscovery(was[0], is[0])
		same := was[0] == is[0]
		if !same && order <= 0 {
			gone = append(gone, was[0])
		}
		if !same && order >= 0 {
			come = append(come, is[0])
		}
		if order <= 0 {
			was = was[1:]
		}
		if order >= 0 {
			is = is[1:]
		}
	}
	return append(gone, was...), append(come, is...)
}

// Memo returns the result of build for this catalog under a key, building it once. Derived documents so live exactly as long as the
// state that they describe.
func (c *Catalog) Memo(key any, build func() (any, error)) (any, error) {
	return c.memo.get(key, build)
}

type catalogKey struct{}

// WithCatalog is the context of a request that one catalog answers as a whole.
func WithCatalog(ctx context.Context, c *Catalog) context.Context {
	given := &atomic.Pointer[Catalog]{}
	given.Store(c)
	return requestctx.Set(ctx, catalogKey{}, given)
}

// ReleaseCatalog takes the catalog from a context that WithCatalog has made. A request that goes on for long, such as a watch, must not keep alive
// all types that were served when it began, with the documents about them.
func ReleaseCatalog(ctx context.Context) {
	if given, ok := ctx.Value(catalogKey{}).(*atomic.Pointer[Catalog]); ok {
		given.Store(nil)
	}
}

// catalogIn returns the catalog of a context, or nil.
func catalogIn(ctx context.Context) *Catalog {
	if given, ok := ctx.Value(catalogKey{}).(*atomic.Pointer[Catalog]); ok {
		return given.Load()
	}
	return nil
}

// CatalogOf returns the catalog that answers the request of the context: the present one if the context has none.
func (r *Registry) CatalogOf(ctx context.Context) *Catalog {
	if c := catalogIn(ctx); c != nil {
		return c
	}
	return r.Catalog()
}
