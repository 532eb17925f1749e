package resources

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// equivalents lists the other names and versions under which the objects of a resource are served, by the catalog of the
// request, or the present one for a write outside a request, and the versions of a definition that are not served. It is a
// runtime.EquivalentResourceMapper. Without a registry it knows only the type at hand.
type equivalents struct{ objectInterfaces }

func (e equivalents) catalog() *Catalog {
	if e.registry != nil {
		return e.registry.CatalogOf(e.ctx)
	}
	return catalogIn(e.ctx)
}

// EquivalentResourcesFor returns the resources with the same objects, including the given one. If a subresource is named, only
// those that have it.
func (e equivalents) EquivalentResourcesFor(resource schema.GroupVersionResource, subresource string) []schema.GroupVersionResource {
	c := e.catalog()
	if c == nil {
		if resource.GroupResource() == e.t.GroupResource {
			return []schema.GroupVersionResource{resource}
		}
		return nil
	}
	type equivalentKey struct {
		resource    schema.GroupVersionResource
		subresource string
	}
	all, _ := c.Memo(equivalentKey{resource, subresource}, func() (any, error) { return c.equivalents(resource, subresource), nil })
	return slices.Clone(all.([]schema.GroupVersionResource))
}

func (c *Catalog) equivalents(resource schema.GroupVersionResource, subresource string) (all []schema.GroupVersionResource) {
	of, ok := c.Lookup(resource)
	if !ok {
		return nil
	}
	for _, e := range of.Equivalents {
		if _, has := e.kindAt(subresource); has {
			all = append(all, e.GroupVersion().WithResource(of.Resource))
		}
	}
	if of.Equivalents != nil {
		return all
	}
	for _, g := range c.groups {
		for _, v := range g.Versions {
			s, ok := g.served[inVersion{v.Version, resource.Resource}]
			if !ok || s.ResourceName() != of.ResourceName() {
				continue
			}
			if _, has := s.Subresources[subresource]; has || subresource == "" {
				all = append(all, s.GVR())
			}
		}
	}
	return all
}

// KindFor returns the kind of the objects of a resource or a subresource; zero when there is none.
func (e equivalents) KindFor(resource schema.GroupVersionResource, subresource string) schema.GroupVersionKind {
	t, kind := e.t, resource.GroupVersion().WithKind(e.t.Kind)
	if t.Equivalents != nil && resource.GroupResource() == t.GroupResource {
		i := slices.IndexFunc(t.Equivalents, func(v Equivalent) bool { return v.Version == resource.Version })
		if i < 0 {
			return schema.GroupVersionKind{}
		}
		kind, _ := t.Equivalents[i].kindAt(subresource)
		return kind
	}
	if c := e.catalog(); c != nil {
		s, ok := c.Lookup(resource)
		if !ok {
			return schema.GroupVersionKind{}
		}
		t, kind = s.Type, s.GroupVersionKind
	} else if resource.GroupResource() != t.GroupResource {
		return schema.GroupVersionKind{}
	}
	if subresource == "" {
		return kind
	}
	sub, ok := t.Subresources[subresource]
	switch {
	case !ok:
		return schema.GroupVersionKind{}
	case !sub.Kind.Empty():
		return sub.Kind
	}
	return kind
}
