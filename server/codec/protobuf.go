package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec/transcode"
)

type marshaler interface{ Marshal() ([]byte, error) }

// messages encodes objects of one type, or their metadata, as protobuf.
type messages struct {
	form string // name in the objects' cache
	kind schema.GroupVersionKind
	fast *transcode.Message // nil: the versions differ, the type is not supported, or the fast path is off
}

func (r *Renderer) newMessages() messages {
	if r.Format.As == AsPartial {
		m := messages{form: "protobuf partial", kind: r.partialKind("")}
		if r.Served.FieldAnnotation == "" && fastpath.Protobuf.On() {
			m.fast, _ = transcode.For(reflect.TypeFor[metav1.PartialObjectMetadata]())
		}
		return m
	}
	m := messages{form: "protobuf " + r.Served.GroupVersion().String(), kind: r.Served.GroupVersionKind}
	if obj, err := r.Served.Scheme.New(r.Served.StorageKind()); err == nil && r.stored && !r.Served.Untyped && fastpath.Protobuf.On() {
		m.fast, _ = transcode.For(reflect.TypeOf(obj).Elem())
	}
	return m
}

// message returns the message of an object. When there are many, it may be valid only until the next call.
func (r *Renderer) message(o *resources.Object) ([]byte, error) {
	if kept := o.Kept(r.messages.form); kept != nil {
		return kept, nil
	}
	build := func() ([]byte, error) { return r.newMessage(o) }
	switch {
	case r.bulk == nil:
		return o.Form(r.messages.form, build)
	case !r.bulk.paced:
		return o.FormIfRoom(r.messages.form, build)
	}
	var err error
	r.bulk.message, err = r.appendMessage(r.bulk.message[:0], o)
	return r.bulk.message, err
}

var scratch = sync.Pool{New: func() any { return new([]byte) }}

// newMessage returns a message in memory of its exact size.
func (r *Renderer) newMessage(o *resources.Object) ([]byte, error) {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	out, err := r.appendMessage((*buf)[:0], o)
	if err != nil {
		return nil, err
	}
	*buf = out
	return bytes.Clone(out), nil
}

// appendMessage appends a newly built message.
func (r *Renderer) appendMessage(dst []byte, o *resources.Object) ([]byte, error) {
	if fast := r.messages.fast; fast != nil {
		if r.Format.As == AsPartial || r.asStored(o) {
			if out, ok := fast.Append(dst, o.Shown().Stored()); ok {
				return out, nil
			}
		}
		fastpath.Protobuf.Fallback()
	}
	if r.bulk != nil {
		r.bulk.pace(len(o.Data))
	}
	raw, err := r.slowMessage(o)
	return append(dst, raw...), err
}

// slowMessage encodes an object by way of its Go type.
func (r *Renderer) slowMessage(o *resources.Object) ([]byte, error) {
	if r.Format.As == AsPartial {
		var p metav1.PartialObjectMetadata
		m, err := r.metadata(o)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(m), &p.ObjectMeta); err != nil {
			return nil, err
		}
		return p.Marshal()
	}
	obj, err := r.versioned(o)
	if err != nil {
		return nil, err
	}
	m, ok := obj.(marshaler)
	if !ok {
		return nil, noMessage(obj)
	}
	return m.Marshal()
}

// noMessage is the error of upstream's serializer for an object without a Go type.
func noMessage(obj runtime.Object) error {
	return notAcceptable(fmt.Sprintf("object %T does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message", obj))
}

// ProtobufMagic begins every object in protobuf.
var ProtobufMagic = []byte("k8s\x00")

// envelope wraps a message according to "Kubernetes Protobuf encoding" of the API concepts page.
func envelope(gvk schema.GroupVersionKind, raw []byte) []byte {
	out := appendEnvelopeHead(make([]byte, 0, len(raw)+envelopeRoom), gvk, len(raw))
	return append(append(out, raw...), envelopeTail...)
}

// envelopeRoom is about the size of an envelope without its message.
const envelopeRoom = 128

// envelopeTail has contentEncoding and contentType, both empty, as in kube-apiserver.
var envelopeTail = []byte{0x1a, 0x00, 0x22, 0x00}

// envelopeHead is the part of an envelope before a message of a given size.
func envelopeHead(gvk schema.GroupVersionKind, size int) []byte {
	return appendEnvelopeHead(make([]byte, 0, envelopeRoom), gvk, size)
}

func appendEnvelopeHead(dst []byte, gvk schema.GroupVersionKind, size int) []byte {
	apiVersion := gvk.GroupVersion().String()
	typeMeta := protowire.SizeTag(1) + protowire.SizeBytes(len(apiVersion)) + protowire.SizeTag(2) + protowire.SizeBytes(len(gvk.Kind))
	dst = append(dst, ProtobufMagic...)
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(typeMeta))
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendString(dst, apiVersion)
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	dst = protowire.AppendString(dst, gvk.Kind)
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(size))
}
