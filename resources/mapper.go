package resources

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Mapper is upstream's view of the kinds and resources that a registry has at the moment. It implements the methods that have
// callers; a call of another one panics.
type Mapper struct {
	meta.RESTMapper // nil

	Registry *Registry
}

// RESTMappings implements meta.RESTMapper. Errors: meta.NoKindMatchError.
func (m Mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	catalog := m.Registry.Catalog()
	var all []*meta.RESTMapping
	for _, version := range versions {
		served, ok := catalog.Kind(gk.WithVersion(version))
		if !ok {
			continue
		}
		mapping := &meta.RESTMapping{Resource: served.GVR(), GroupVersionKind: served.GroupVersionKind, Scope: meta.RESTScopeRoot}
		if served.Namespaced {
			mapping.Scope = meta.RESTScopeNamespace
		}
		all = append(all, mapping)
	}
	if len(all) == 0 {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return all, nil
}

// KindsFor implements meta.RESTMapper, for resources whose group and version are known. Errors: meta.NoResourceMatchError.
func (m Mapper) KindsFor(gvr schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	served, ok := m.Registry.Catalog().Lookup(gvr)
	if !ok {
		return nil, &meta.NoResourceMatchError{PartialResource: gvr}
	}
	return []schema.GroupVersionKind{served.GroupVersionKind}, nil
}
