package openapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// describeEmbedded adds to the schemas of the whole objects within s what every object has. typeMeta describes apiVersion and kind.
// Version 2 is not told of it where other fields are allowed, too: kubectl would refuse them.
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
			s.Required = append(slices.Clip(s.Required), name) // may be another's
		}
	}
}
