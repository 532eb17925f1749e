package custom

import (
	"fmt"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SelectableFields returns those of an object that is stored in a version of a definition, other than metadata.name and metadata.namespace. It does not
// need the definition to be served.
func SelectableFields(d *v1.CustomResourceDefinition, version string, o runtime.Object) (fields.Set, error) {
	at := slices.IndexFunc(d.Spec.Versions, func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if at < 0 {
		return nil, fmt.Errorf("its definition does not have the version %s", version)
	}
	selectable := d.Spec.Versions[at].SelectableFields
	if len(selectable) == 0 {
		return nil, nil
	}
	kind := schema.GroupVersionKind{Group: d.Spec.Group, Version: version, Kind: d.Spec.Names.Kind}
	s := customresource.NewStrategy(nil, d.Spec.Scope == v1.NamespaceScoped, kind, nil, nil, nil, nil, nil, selectable)
	_, found, err := s.GetAttrs(o)
	delete(found, "metadata.name")
	delete(found, "metadata.namespace")
	return found, err
}
