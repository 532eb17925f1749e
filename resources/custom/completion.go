package custom

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Completion returns a function that turns an object of a definition, as kube-apiserver has stored it in a version, into the object that
// kube-apiserver shows: it prunes fields that the schema does not have, and sets defaults that the schema has got since, or that are in a status, which
// a create removes. In the metadata of the object and of those within it, it drops invalid fields, and it sets a missing generation. Here objects are
// stored in the form in which they are shown.
//
// Errors: there is no such version.
func Completion(d *v1.CustomResourceDefinition, version string) (func(u *unstructured.Unstructured) error, error) {
	at := slices.IndexFunc(d.Spec.Versions, func(v v1.CustomResourceDefinitionVersion) bool { return v.Name == version })
	if at < 0 {
		return nil, fmt.Errorf("its definition does not have the version %s", version)
	}
	s, err := completingSchema(d, d.Spec.Versions[at].Schema)
	if err != nil {
		return nil, err
	}
	find := func(string) (*structuralschema.Structural, bool, error) { return s, s != nil, nil }
	return func(u *unstructured.Unstructured) error {
		if _, err := coerceWhole(u, true, true, coercion{DropInvalidFields: true}, find); err != nil {
			return err
		}
		repairGeneration(u)
		if s != nil {
			structuraldefaulting.Default(u.Object, s)
		}
		return nil
	}, nil
}

// completingSchema is the schema by which objects are pruned and defaulted; nil: they are not.
func completingSchema(d *v1.CustomResourceDefinition, validation *v1.CustomResourceValidation) (*structuralschema.Structural, error) {
	if d.Spec.PreserveUnknownFields || validation == nil || validation.OpenAPIV3Schema == nil {
		return nil, nil
	}
	text, err := json.Marshal(validation.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	s, err := newVersionSchema(text)
	if err != nil {
		return nil, nil //nolint:nilerr // kube-apiserver does neither by a schema that is not structural
	}
	return s.structural, nil
}
