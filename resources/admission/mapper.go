package admission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// mapper says which resources there are of a kind, for OwnerReferencesPermissionEnforcement: what the server itself serves.
type mapper struct {
	meta.RESTMapper // nil

	registry *resources.Registry
}

// RESTMappings implements meta.RESTMapper. Errors: NoKindMatchError.
func (m mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	catalog := m.registry.Catalog()
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
