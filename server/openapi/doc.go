// Package openapi serves the description of the API: /openapi/v2 in one document, /openapi/v3 in one document per
// group version, as the section "OpenAPI interface definition" of the API concepts has them.
//
// A document is made when a client asks for it. Those of what is served by default, and those of version 3 of what a
// runtime config may add, are prepared: they are embedded, and sent when they have the fingerprint of what the catalog of
// the registry comes to. Others are built from the catalog, the embedded definitions and the schemas of types that have no
// Go type. The hashes in the index of version 3 are made of what the documents are made of: the index builds none. What a
// type without a Go type contributes to a hash is kept with the type, and documents with their versions: a change costs
// what has changed. What is kept of a document is its
// compressed encoding. `make generate` writes the embedded files from upstream's definitions (openapigen).
//
//	handler.go     paths to documents
//	state.go       the documents of one catalog
//	document.go    one encoded document and how it is sent; unpacker.go, what it is read by; blocks.go, how it is kept; protobuf.go, the other encoding of a wide one
//	fingerprint.go what a document is made of, summed up
//	prepared.go    the index of the documents that are prepared
//	archive.go     the embedded files; repeats.go, what they say again and again
//	prepare.go     how they are made
//	v2.go          the one document of version 2; wide.go, one with many types without a Go type; widepaths.go, their operations in it
//	v3.go          the documents of version 3; storedtexts.go, what is copied into one: schemas of definitions, along which stored.go
//	               and storedvalue.go go; storedv2.go, what version 2 says of them
//	external.go    what other servers describe; join.go, one document of version 2 of theirs and ours
//	source.go      what a document is built from; kinds.go, the kinds of Go types
//	definitions.go upstream's definitions, read from the archive
//	untyped.go     the paths and the definitions of types without a Go type; embedded.go, of the objects within them
//	rest.go        the paths of a resource, verb by verb
//	connect.go     the paths that carry a stream: exec, log, proxy
//	fixed.go       the paths that are no resource
//	route.go       one operation, as the builders of kube-openapi want it
//	parameter.go   parameters of an operation; cbor.go, the encoding that is served when it is asked for
//	operationid.go names of operations
package openapi
