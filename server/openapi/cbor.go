package openapi

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// encoded adds CBOR to the media types of operations, if CBOR is served.
func (s *source) encoded(r *routes) *routes {
	if !s.cbor {
		return r
	}
	all := &routes{root: r.root, untyped: r.untyped}
	for _, op := range r.list {
		if plain, ok := op.(*route); ok && !plain.untyped {
			more := *plain
			more.consumes, more.produces = withCBOR(more.consumes), withCBOR(more.produces)
			op = &more
		}
		all.list = append(all.list, op)
	}
	return all
}

// withCBOR inserts CBOR after the types that it follows: protobuf, as a document and as a stream, and the YAML of an apply.
func withCBOR(list []string) []string {
	var all []string
	for _, t := range list {
		all = append(all, t)
		switch t {
		case runtime.ContentTypeProtobuf:
			all = append(all, runtime.ContentTypeCBOR)
		case runtime.ContentTypeProtobuf + ";stream=watch":
			all = append(all, runtime.ContentTypeCBORSequence)
		case string(types.ApplyYAMLPatchType):
			all = append(all, string(types.ApplyCBORPatchType))
		}
	}
	return all
}
