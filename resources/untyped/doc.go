// Package untyped is the codec of objects without a Go type, as those of custom resources are: they are
// *unstructured.Unstructured in every version, also in the hub form.
//
//	scheme.go      makes, recognises, defaults and converts the objects of one kind
//	serializer.go  reads bodies in the encodings that clients send
//	define.go      a resources.Type of such objects
//	untypedtest/   a kind for tests that is added, changed and removed
package untyped
