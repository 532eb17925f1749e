package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Scheme has every version of every built-in kind, served or not.
var Scheme = upstream.Scheme

// Codecs encodes and decodes the kinds of Scheme, in all encodings of kube-apiserver.
var Codecs = serializer.NewCodecFactory(Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
