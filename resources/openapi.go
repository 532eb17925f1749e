package resources

import "k8s.io/kube-openapi/pkg/validation/spec"

// OpenAPI describes the objects of a type that has no Go type.
type OpenAPI struct {
	// Digest identifies Schema: equal digests mean equal schemas.
	Digest string
	// Schema makes the schema of objects without apiVersion, kind and metadata, as documents of OpenAPI version 2 or 3 have it. It is
	// called when a document is built, and the caller may change the result. A nil schema describes nothing.
	Schema func(v2 bool) (*spec.Schema, error)
	// Stored, when set, returns the schema of documents of version 3 as it was validated and stored: JSON of a JSONSchemaProps of
	// apiextensions.k8s.io/v1, as Go's encoding/json writes it. It is empty where there is none. It may be in the caller's buffer
	// (room), which Stored grows if necessary.
	Stored func(room *[]byte) ([]byte, error)
	// SelectableFields are the fields that selectors may name besides metadata.name and metadata.namespace.
	SelectableFields []string
}
