package custom

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// Completion returns a function that turns an object, as kube-apiserver has stored it in a version, into the object that kube-apiserver shows: it
// prunes fields that the schema does not have, and sets defaults that the schema has got since, or that are in a status, which a create removes. Here
// objects are stored in the form in which they are shown.
//
// Errors: there is no such version.
func Completion(d *v1.CustomResourceDefinition, version string) (func(object map[string]any), error) {
	at := slices.IndexFunc(d.Spec.Versions, func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if at < 0 {
		return nil, fmt.Errorf("its definition does not have the version %s", version)
	}
	asStored := func(map[string]any) {}
	validation := d.Spec.Versions[at].Schema
	if d.Spec.PreserveUnknownFields || validation == nil || validation.OpenAPIV3Schema == nil {
		return asStored, nil
	}
	text, err := json.Marshal(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	s, err := newVersionSchema(text)
	if err != nil || s.structural == nil {
		return asStored, nil //nolint:nilerr // kube-apiserver does neither by a schema that is not structural
	}
	return func(object map[string]any) {
		structuralpruning.Prune(object, s.structural, true)
		structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
		structuraldefaulting.Default(object, s.structural)
	}, nil
}
