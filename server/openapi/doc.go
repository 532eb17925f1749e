// Package openapi serves the description of the API: /openapi/v2 in one document, /openapi/v3 in one document per
// group version, as the section "OpenAPI interface definition" of the API concepts has them.
//
// Nothing is built until somebody asks. A document is then made from the catalog of the registry and from upstream's
// generated definitions of its types; what is kept of it is its compressed encoding.
//
//	handler.go     paths to documents
//	state.go       the documents of one catalog
//	document.go    one encoded document and how it is sent
//	v2.go          the one document of version 2
//	v3.go          the documents of version 3
//	source.go      definitions and their names
//	rest.go        the paths of a resource, verb by verb
//	connect.go     the paths that carry a stream: exec, log, proxy
//	fixed.go       the paths that are no resource
//	route.go       one operation, as the builders of kube-openapi want it
//	parameter.go   parameters of an operation
//	operationid.go names of operations
package openapi
