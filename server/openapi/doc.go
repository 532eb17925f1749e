// Package openapi serves the OpenAPI documents: /openapi/v2 is a single document, and /openapi/v3 has one per group version; see the section
// "OpenAPI interface definition" of the API concepts.
//
// A document is made on request. The documents of the default configuration, and those of version 3 of what a runtime config may add, are prepared:
// they are embedded, and sent if their fingerprint is that of the registry's catalog. Others are built from the catalog, the embedded definitions
// and the schemas of custom resources. The hashes in the index of version 3 are computed from the inputs of the documents: the index builds none.
// The part of a custom resource in a hash is cached with its type, and documents with their versions: a change costs only what has changed. A
// document is kept in its compressed encoding. `make generate` writes the embedded files from upstream's definitions (openapigen).
//
// In this package, custom resources are all types without a Go type: those of CustomResourceDefinitions, and those of the object history.
//
//	handler.go     paths to documents
//	state.go       the documents of one catalog
//	document.go    an encoded document and how it is sent; unpacker.go, its reader; blocks.go, its storage; protobuf.go, protobuf of a wide one
//	fingerprint.go fingerprints of a document's inputs
//	prepared.go    the index of prepared documents
//	archive.go     the embedded files; repeats.go, compression of their repetitions
//	prepare.go     making the embedded files
//	v2.go          the document of version 2; wide.go, with many custom resources; widepaths.go, their operations
//	v3.go          the documents of version 3; storedwriter.go, schemas of definitions as text, converted by stored.go and
//	               storedvalue.go; storedv2.go, the same for version 2; wordedv3.go, operations of custom resources
//	recent.go      documents that are not compressed yet
//	external.go    documents of other servers; join.go, one document of version 2 of theirs and ours
//	source.go      inputs of a document; kinds.go, the kinds of Go types
//	definitions.go upstream's definitions, read from the archive
//	untyped.go     the paths and the definitions of custom resources; embedded.go, of objects embedded in them
//	rest.go        the paths of a resource, verb by verb
//	connect.go     the paths of streams: exec, log, proxy
//	fixed.go       the paths of no resource
//	route.go       one operation, for the builders of kube-openapi
//	parameter.go   parameters of an operation; cbor.go, the optional encoding
//	operationid.go names of operations
package openapi
