package openapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// describeEmbedded adds apiVersion, kind and metadata to the schemas of embedded resources within s. typeMeta describes apiVersion and kind. It
// does not do so for version 2 if other fields are allowed: kubectl would reject these.
func describeEmbedded(s *spec.Schema, typeMeta map[string]spec.Schema, prefix string) {
	if s == nil {
		return
	}
	for name, property := range s.Properties {
		describeEmbedded(&property, typeMeta, prefix)
		s.Properties[name] = property
	}
	if s.Items != nil {
		describeEmbedded(s.Items.Schema, typeMeta, prefix)
	}
	if s.AdditionalProperties != nil {
		describeEmbedded(s.AdditionalProperties.Schema, typeMeta, prefix)
	}
	embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource")
	open, _ := s.Extensions.GetBool("x-kubernetes-preserve-unknown-fields")
	if !embedded || open && prefix == definitionsV2 {
		return
	}
	docs := metav1.PartialObjectMetadata{}.SwaggerDoc()
	apiVersion, kind := typeMeta["apiVersion"], typeMeta["kind"]
	s.SetProperty("apiVersion", *apiVersion.WithDescription("apiVersion defines the versioned schema of this representation of an object. " +
		"More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"))
	s.SetProperty("kind", *kind.WithDescription("kind is a string value representing the type of this object. In CamelCase. " +
		"More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"))
	s.SetProperty("metadata", *spec.RefSchema(prefix + objectMeta).WithDescription(docs["metadata"]))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(slices.Clip(s.Required), name) // a copy, because the slice may be shared
		}
	}
}
