package resources

import "k8s.io/kube-openapi/pkg/validation/spec"

// OpenAPI describes the objects of a type that has no Go type.
type OpenAPI struct {
	// Digest stands for Schema: where one is the same the other is.
	Digest string
	// Schema makes the schema of objects but for apiVersion, kind and metadata, as documents of version 2 or 3 of OpenAPI have
	// it. It is called when a document is built, and the caller may change what it returns. A nil schema says nothing.
	Schema func(v2 bool) (*spec.Schema, error)
	// Stored, when set, returns the schema of documents of version 3 as it was validated and stored: JSON of a JSONSchemaProps of
	// apiextensions.k8s.io/v1, as Go's encoding/json writes it. It is empty where there is none. It may be in the room that the caller
	// gives, which is made larger where it has to be.
	Stored func(room *[]byte) ([]byte, error)
	// SelectableFields are the fields that selectors may name beside metadata.name and metadata.namespace.
	SelectableFields []string
}
