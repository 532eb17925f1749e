package untyped

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/untypedjson"
)

// Serializer reads and writes the objects of a Scheme as JSON, YAML and CBOR. Objects without a Go type have no protobuf.
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
		cbor.NewSerializerInfo(s.scheme, s.scheme),
	}
}

// EncoderForVersion encodes in a version.
func (s serializer) EncoderForVersion(e runtime.Encoder, gv runtime.GroupVersioner) runtime.Encoder {
	return versioning.NewCodec(e, nil, s.scheme, s.scheme, s.scheme, s.scheme, gv, nil, s.scheme.Kind.String())
}

// DecoderToVersion sets the defaults of a decoded object, and converts it. As in kube-apiserver, unknown fields in CBOR are not reported.
func (s serializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	if s.scheme.Coerce != nil {
		plain, ok := d.(*json.Serializer)
		d = coercing{d, s.scheme, ok && plain.IsStrict()}
	}
	return versioning.NewCodec(nil, d, asSent{s.scheme}, s.scheme, s.scheme, s.scheme, nil, gv, s.scheme.Kind.String())
}

// DecodeClean reads an object of a kind that was sent as JSON, and sets its defaults. ok is false where there is any error or unknown field: a
// decoder of DecoderToVersion reports it, and otherwise makes the same object. Strings of the object are parts of data, which must not be changed
// any more.
func (s *Scheme) DecodeClean(data []byte, kind schema.GroupVersionKind) (obj runtime.Object, ok bool) {
	if s.Clean == nil || kind.GroupKind() != s.Kind {
		return nil, false
	}
	object, read := untypedjson.Decode(data)
	if !read {
		if strict, err := kjson.UnmarshalStrict(data, &object); err != nil || len(strict) > 0 {
			return nil, false
		}
	}
	if object["kind"] != kind.Kind || object["apiVersion"] != kind.GroupVersion().String() || !s.Clean(kind.Version, object) {
		return nil, false
	}
	u := &unstructured.Unstructured{Object: object}
	s.Default(u)
	return u, true
}

// asSent leaves objects without a Go type in the version, and of the kind, that they were sent in: its callers, which know the expected kind,
// report a wrong one.
type asSent struct{ *Scheme }

// ConvertToVersion converts the objects of other kinds.
func (s asSent) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if _, ok := in.(*unstructured.Unstructured); ok {
		return in, nil
	}
	return s.Scheme.ConvertToVersion(in, target)
}

// Convert copies the decoded object into out.
func (s asSent) Convert(in, out, context any) error {
	from, fromOK := in.(*unstructured.Unstructured)
	into, intoOK := out.(*unstructured.Unstructured)
	if !fromOK || !intoOK {
		return s.Scheme.Convert(in, out, context)
	}
	into.Object = from.Object
	return nil
}

// coercing is a decoder that coerces its objects.
type coercing struct {
	runtime.Decoder
	scheme *Scheme
	// strict: unknown fields are errors.
	strict bool
}

// Decode reads an object. With a StrictDecodingError it returns the object, too.
func (c coercing) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var strict []error
	obj, kind, err := c.Decoder.Decode(data, defaults, into)
	if err != nil {
		found, ok := runtime.AsStrictDecodingError(err)
		if !ok || obj == nil {
			return nil, kind, err
		}
		strict = found.Errors()
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		unknown, err := c.scheme.Coerce(u, c.strict)
		if err != nil {
			return nil, kind, err
		}
		for _, path := range unknown {
			strict = append(strict, fmt.Errorf("unknown field %q", path))
		}
	}
	if c.strict && len(strict) > 0 {
		return obj, kind, runtime.NewStrictDecodingError(strict)
	}
	return obj, kind, nil
}
