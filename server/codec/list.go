package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// List is a collection ready to be written: everything that can fail has been done, so that an error can still become a Status.
type List struct {
	// Write writes the collection as it is rendered.
	Write func(io.Writer) error
	// Items are the parts of the collection. It is nil if the parts are not reproducible, such as the ages in a Table, or not consecutive.
	Items *Items
}

// Items is a collection whose items are consecutive.
type Items struct {
	Head, Separator, Tail []byte
	Objects               []*resources.Object
	// Form identifies the encoding of Item: with the same Form, a revision of an object always has the same bytes.
	Form string
	// Item writes one of the objects.
	Item func(w io.Writer, i int) error
}

// Write writes the collection.
func (l *Items) Write(w io.Writer) error {
	if _, err := w.Write(l.Head); err != nil {
		return err
	}
	if err := l.Range(w, 0, len(l.Objects)); err != nil {
		return err
	}
	_, err := w.Write(l.Tail)
	return err
}

// Range writes the items [from, to), with separators between them.
func (l *Items) Range(w io.Writer, from, to int) error {
	for i := from; i < to; i++ {
		if i > from && len(l.Separator) > 0 {
			if _, err := w.Write(l.Separator); err != nil {
				return err
			}
		}
		if err := l.Item(w, i); err != nil {
			return err
		}
	}
	return nil
}

// List prepares a collection ("Collections" of the API concepts page).
func (r *Renderer) List(objects []*resources.Object, m metav1.ListMeta) (*List, error) {
	r.Bulk(len(objects))
	if r.Format.As != AsObject {
		m.ShardInfo = nil // as in kube-apiserver, which drops it
	}
	if r.converted == nil { // conversion must fail before anything is written
		if err := r.ConvertAll(context.Background(), objects); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Format.As == AsTable:
		return inOne(r.tableList(r.inTableOrder(objects), m))
	case r.Format.As == AsPartial && !r.Format.AsList:
		return nil, partialError(r.Served.NewList())
	case r.Format.Media == Protobuf:
		items, err := r.protobufList(objects, m)
		if err != nil {
			return nil, err
		}
		return &List{items.Write, items}, nil
	case r.Format.Media == CBOR:
		return inOne(r.cborList(objects, m))
	}
	open, end, err := r.around(m)
	if err != nil {
		return nil, err
	}
	if r.Format.As == AsPartial && len(objects) == 0 {
		// In kube-apiserver the items of an empty list are null for this kind alone.
		return inOne(r.whole(append(bytes.TrimSuffix(open, []byte("[")), "null}"...), nil))
	}
	if r.Format.Media == YAML && fastpath.Streaming.On() {
		return r.yamlList(objects, m)
	}
	items := r.items(objects, func(w io.Writer, i int) error { return r.jsonItem(w, objects[i]) })
	items.Head, items.Separator, items.Tail = open, comma, end
	list, err := inOne(r.streamed(items.Write))
	if err == nil && r.Format.Media == JSON && !r.Format.Pretty {
		list.Items = items
	}
	return list, err
}

// Convert calls the conversion webhook for all objects at once: rendering them then cannot fail, and calls no webhook. Metadata needs no
// conversion.
//
// Its errors are those of resources.Type.Converted.
func (r *Renderer) Convert(ctx context.Context, objects []*resources.Object) error {
	_, _, err := r.convert(ctx, objects)
	return err
}

// convert is Convert, and returns the objects that are not stored as shown, with their JSON.
func (r *Renderer) convert(ctx context.Context, objects []*resources.Object) (others []*resources.Object, made [][]byte, err error) {
	if r.Served.Converted == nil || r.Format.As == AsPartial {
		return nil, nil, nil
	}
	for _, o := range objects {
		if r.converts(o) {
			others = append(others, o)
		}
	}
	made, err = r.Served.Converted(ctx, others)
	return others, made, err
}

// ConvertAll is Convert for the objects of a list, whose JSON it keeps for List: a request that converts them after a change of the definition
// replaces the results that are kept with the objects.
func (r *Renderer) ConvertAll(ctx context.Context, objects []*resources.Object) error {
	others, results, err := r.convert(ctx, objects)
	if err != nil || r.Served.Converted == nil {
		return err
	}
	r.converted = make(map[*resources.Object][]byte, len(others))
	for i, o := range others {
		r.converted[o] = results[i]
	}
	return nil
}

// inOne returns a collection that can only be written as a whole.
func inOne(write func(io.Writer) error, err error) (*List, error) {
	if err != nil {
		return nil, err
	}
	return &List{Write: write}, nil
}

// items returns the items of a collection, without head and tail.
func (r *Renderer) items(objects []*resources.Object, item func(w io.Writer, i int) error) *Items {
	form := fmt.Sprintf("%s %d %s %s", r.Format.Media, r.Format.As, r.Format.AsVersion, r.Served.GroupVersion())
	return &Items{Objects: objects, Form: form, Item: item}
}

// streamed returns a function that converts compact JSON, as write writes it, into the requested format. It converts as it goes, except for a Table
// in YAML, which needs the whole, and while the fast path is off.
func (r *Renderer) streamed(write func(io.Writer) error) (func(io.Writer) error, error) {
	switch {
	case r.Format.Media != JSON || r.Format.Pretty && !fastpath.Streaming.On():
		var buf bytes.Buffer
		if err := write(&buf); err != nil {
			return nil, err
		}
		return r.whole(bytes.TrimRight(buf.Bytes(), "\n"), nil)
	case r.Format.Pretty:
		return func(w io.Writer) error { return write(&indenter{w: w}) }, nil
	}
	return write, nil
}

func (r *Renderer) listKind() schema.GroupVersionKind {
	if r.Format.As == AsPartial {
		return r.partialKind("List")
	}
	return r.Served.GroupVersion().WithKind(r.Served.KindOfLists())
}

// whole returns a function that writes a complete document.
func (r *Renderer) whole(data []byte, err error) (func(io.Writer) error, error) {
	if err != nil {
		return nil, err
	}
	if data, err = r.finish(data); err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}, nil
}

var comma = []byte(",")

// around returns the JSON before and after the items of a list. As in kube-apiserver, lists without a Go type have their keys in alphabetical
// order.
func (r *Renderer) around(m metav1.ListMeta) (open, end []byte, err error) {
	kind := r.listKind()
	name, version := kind.Kind, kind.GroupVersion().String()
	head, err := json.Marshal(r.listMeta(m))
	if r.untypedList() {
		return fmt.Appendf(nil, `{"apiVersion":%q,"items":[`, version), fmt.Appendf(nil, "],\"kind\":%q,\"metadata\":%s}\n", name, head), err
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, name, version, head), []byte("]}\n"), err
}

// untypedList tells whether the list has no Go type. A list of metadata has one.
func (r *Renderer) untypedList() bool { return r.Served.Untyped && r.Format.As != AsPartial }

// listMeta is the metadata of a list, for encoding. A list without a Go type always has a continue field.
func (r *Renderer) listMeta(m metav1.ListMeta) any {
	if !r.untypedList() {
		return m
	}
	return struct {
		Continue           string `json:"continue"`
		RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
		ResourceVersion    string `json:"resourceVersion,omitempty"`
	}{m.Continue, m.RemainingItemCount, m.ResourceVersion}
}

func (r *Renderer) jsonItem(w io.Writer, o *resources.Object) error {
	if r.Format.As == AsPartial {
		m, err := r.metadata(o)
		if err != nil {
			return err
		}
		return writeAll(w, r.partialHead(), m, "}")
	}
	head, rest, err := r.item(o)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err = w.Write(rest)
	return err
}

// writeAll writes strings in sequence.
func writeAll(w io.Writer, parts ...string) error {
	for _, part := range parts {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	return nil
}

func partialError(list runtime.Object) error {
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%T)", list))
}

// partialListError rejects one object rendered as a list. kube-apiserver does not know whether an untyped object is a list, and fails when it looks
// for the items.
func (r *Renderer) partialListError() error {
	if r.Served.Untyped {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "content is not a list"}}
	}
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%T)", r.Served.New()))
}

func notAcceptable(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable,
		Reason: metav1.StatusReasonNotAcceptable, Message: message}}
}
