package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// List writes a collection as it is produced ("Collections" of the API concepts page).
//
// prepare does all that can fail and returns the function that writes, so that an error can still become a Status.
func (r *Renderer) List(objects []*resources.Object, m metav1.ListMeta) (write func(io.Writer) error, err error) {
	r.Bulk(len(objects))
	switch {
	case r.Format.As == AsTable:
		return r.tableList(r.inTableOrder(objects), m)
	case r.Format.As == AsPartial && !r.Format.AsList:
		return nil, partialError(r.Served.NewList())
	case r.Format.Media == Protobuf:
		return r.protobufList(objects, m)
	case r.Format.Media == CBOR:
		return r.cborList(objects, m)
	}
	head, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	kind := r.listKind()
	open := fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":[`, kind.Kind, kind.GroupVersion().String(), head)
	if r.Format.As == AsPartial && len(objects) == 0 {
		// kube-apiserver leaves the empty list of this kind null, other than that of every other kind.
		return r.whole(append(bytes.TrimSuffix(open, []byte("[")), "null}"...), nil)
	}
	return r.streamed(func(w io.Writer) error { return r.jsonItems(w, open, objects) })
}

// streamed makes what writes a document as JSON on a line what writes it in the format asked for: as it is produced, other
// than in YAML, which needs the whole.
func (r *Renderer) streamed(write func(io.Writer) error) (func(io.Writer) error, error) {
	switch {
	case r.Format.Media != JSON:
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

// whole is the writer of a document that is made at once.
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

func (r *Renderer) jsonItems(w io.Writer, open []byte, objects []*resources.Object) error {
	if _, err := w.Write(open); err != nil {
		return err
	}
	for i, o := range objects {
		if i > 0 {
			if _, err := w.Write(comma); err != nil {
				return err
			}
		}
		if err := r.jsonItem(w, o); err != nil {
			return err
		}
	}
	_, err := w.Write(listEnd)
	return err
}

var (
	comma   = []byte(",")
	listEnd = []byte("]}\n")
)

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

// writeAll writes strings one after the other.
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

func partialListError(obj runtime.Object) error {
	return notAcceptable(fmt.Sprintf("you requested PartialObjectMetadataList, but the requested object is not a list (%T)", obj))
}

func notAcceptable(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable,
		Reason: metav1.StatusReasonNotAcceptable, Message: message}}
}
