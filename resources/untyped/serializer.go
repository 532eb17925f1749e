package untyped

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
)

// Serializer reads and writes the objects of a Scheme as JSON and YAML. There is no protobuf of what has no Go type.
func (s *Scheme) Serializer() runtime.NegotiatedSerializer { return serializer{s} }

type serializer struct{ scheme *Scheme }

// SupportedMediaTypes are the encodings.
func (s serializer) SupportedMediaTypes() []runtime.SerializerInfo {
	with := func(o json.SerializerOptions) *json.Serializer {
		return json.NewSerializerWithOptions(json.DefaultMetaFactory, s.scheme, s.scheme, o)
	}
	return []runtime.SerializerInfo{
		{MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
			Serializer: with(json.SerializerOptions{}), StrictSerializer: with(json.SerializerOptions{Strict: true})},
		{MediaType: runtime.ContentTypeYAML, MediaTypeType: "application", MediaTypeSubType: "yaml", EncodesAsText: true,
			Serializer: with(json.SerializerOptions{Yaml: true}), StrictSerializer: with(json.SerializerOptions{Yaml: true, Strict: true})},
	}
}

// EncoderForVersion encodes in a version.
func (s serializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, s.scheme, s.scheme, s.scheme, s.scheme, gv, nil, s.scheme.Kind.String())
}

// DecoderToVersion fills in the defaults of what is decoded, and converts it.
func (s serializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return versioning.NewCodec(nil, d, s.scheme, s.scheme, s.scheme, s.scheme, nil, gv, s.scheme.Kind.String())
}
