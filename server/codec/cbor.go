package codec

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/rowlock/rowlock/resources"
)

// cborMark begins every document: the tag "self-described CBOR" (RFC 8949, 3.4.6).
var cborMark = []byte{0xd9, 0xd9, 0xf7}

const (
	cborMap   = 0xa0 // the head of an empty map; add n for n entries, up to 23
	cborArray = 4    // the major type of arrays
	cborNull  = 0xf6
	// cborShort is the largest argument that fits into the head of an item.
	cborShort = 23
)

// cbor encodes an object as an item of a list: without apiVersion and kind, unless it has no Go type.
func (r *Renderer) cbor(o *resources.Object) ([]byte, error) {
	return r.form(o, r.Served.FormID("cbor "+r.Served.GroupVersion().String(), true), func() ([]byte, error) {
		obj, err := r.versioned(o)
		if err != nil {
			return nil, err
		}
		if u, ok := obj.(runtime.Unstructured); ok {
			return direct.Marshal(u.UnstructuredContent())
		}
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return direct.Marshal(obj)
	})
}

// cborPartial encodes an object's metadata only.
func (r *Renderer) cborPartial(o *resources.Object) ([]byte, error) {
	return r.form(o, "cbor partial", func() ([]byte, error) {
		var p struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		}
		m, err := r.metadata(o)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(m), &p.Metadata); err != nil {
			return nil, err
		}
		return direct.Marshal(p)
	})
}

// cborObject returns the document of an object, without the mark.
func (r *Renderer) cborObject(o *resources.Object) ([]byte, error) {
	kind, fields := r.Served.GroupVersionKind, r.cbor
	if r.Format.As == AsPartial {
		kind, fields = r.partialKind(""), r.cborPartial
	}
	data, err := fields(o)
	if err != nil || r.Served.Untyped && r.Format.As != AsPartial {
		return data, err
	}
	head, err := cborKind(kind)
	if err != nil {
		return nil, err
	}
	if len(data) == 0 || data[0] < cborMap || data[0] > cborMap+cborShort-2 {
		return nil, fmt.Errorf("%s has too many fields to be encoded as CBOR", o.Key)
	}
	out := make([]byte, 0, 1+len(head)+len(data))
	out = append(out, data[0]+2)
	return append(append(out, head...), data[1:]...), nil
}

// cborKind returns the entries kind and apiVersion of a map.
func cborKind(gvk schema.GroupVersionKind) ([]byte, error) {
	data, err := direct.Marshal(metav1.TypeMeta{Kind: gvk.Kind, APIVersion: gvk.GroupVersion().String()})
	if err != nil {
		return nil, err
	}
	return data[1:], nil
}

func marked(data []byte) []byte {
	return append(append(make([]byte, 0, len(cborMark)+len(data)), cborMark...), data...)
}

// cborList writes a list.
func (r *Renderer) cborList(objects []*resources.Object, m metav1.ListMeta) (func(io.Writer) error, error) {
	kind, err := cborKind(r.listKind())
	if err != nil {
		return nil, err
	}
	entries, err := direct.Marshal(map[string]any{"metadata": r.listMeta(m)})
	if err != nil {
		return nil, err
	}
	head := append(marked([]byte{cborMap + 4}), kind...)
	head = append(append(head, entries[1:]...), "\x45items"...)
	item := r.cbor
	if r.Format.As == AsPartial {
		item = r.cborObject
	}
	if r.Format.As == AsPartial && len(objects) == 0 {
		head = append(head, cborNull)
	} else {
		head = appendCBORHead(head, cborArray, len(objects))
	}
	items := make([][]byte, len(objects))
	for i, o := range objects {
		if items[i], err = item(o); err != nil {
			return nil, err
		}
	}
	return func(w io.Writer) error {
		_, err := w.Write(head)
		for i := 0; i < len(items) && err == nil; i++ {
			_, err = w.Write(items[i])
		}
		return err
	}, nil
}

// appendCBORHead appends the head of an item of a major type, with its argument in as few bytes as possible (RFC 8949, 3).
func appendCBORHead(b []byte, major byte, n int) []byte {
	switch {
	case n <= cborShort:
		return append(b, major<<5|byte(n))
	case n < 1<<8:
		return append(b, major<<5|24, byte(n))
	case n < 1<<16:
		return append(b, major<<5|25, byte(n>>8), byte(n))
	}
	return append(b, major<<5|26, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// cborFrame writes a WatchEvent: a document with the object's own document within.
func cborFrame(w io.Writer, typ string, object []byte) error {
	head := append(marked([]byte{cborMap + 2}), "\x44type"...)
	head = append(appendCBORHead(head, 2, len(typ)), typ...)
	if _, err := w.Write(append(head, "\x46object"...)); err != nil {
		return err
	}
	_, err := w.Write(object)
	return err
}

// cborValue encodes an object that is not stored.
func cborValue(obj runtime.Object) ([]byte, error) {
	data, err := direct.Marshal(obj)
	return marked(data), err
}
