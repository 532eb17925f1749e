package codec

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/rowlock/rowlock/resources"
)

// Events writes the frames of one watch stream: JSON documents on a line each, protobuf messages with a length prefix, or CBOR documents. It must
// not be used concurrently.
type Events struct {
	r *Renderer
	// apart is set if the transport delimits frames, so that protobuf messages have no length prefix.
	apart bool
	// headers is set once a Table had its columns; later ones omit them.
	headers bool
}

// NewEvents returns the frames of one stream. apart is set for a transport of messages, which delimits them itself.
func NewEvents(r *Renderer, apart bool) *Events { return &Events{r: r, apart: apart} }

// Follow continues with a replacement of the stream's type. The next Table has its columns again.
func (e *Events) Follow(s *resources.Served) {
	bulk := e.r.bulk
	e.r = NewRenderer(s, e.r.Format)
	e.r.bulk, e.headers = bulk, false
}

// Convert is Renderer.Convert.
func (e *Events) Convert(ctx context.Context, objects []*resources.Object) error {
	return e.r.Convert(ctx, objects)
}

// Media is the media type of the frames.
func (e *Events) Media() string { return e.r.Format.Media }

// Prefix is the length of the prefix of a frame, which kube-apiserver does not count as part of the event.
func (e *Events) Prefix() int {
	if e.r.Format.Media == Protobuf && !e.apart {
		return prefixBytes
	}
	return 0
}

// Bulk is Renderer.Bulk.
func (e *Events) Bulk(objects int) { e.r.Bulk(objects) }

// Event writes an event for an object. No object can be rendered as a list: a watch that requests that ends at its first event, as in
// kube-apiserver.
func (e *Events) Event(w io.Writer, typ watch.EventType, o *resources.Object) error {
	f := e.r.Format
	switch {
	case f.AsList:
		return e.r.partialListError()
	case f.As == AsTable:
		data, err := e.r.table([]*resources.Object{o}, metav1.ListMeta{ResourceVersion: resources.FormatRevision(o.Revision)}, !e.headers)
		if err != nil {
			return err
		}
		e.headers = true
		return jsonFrame(w, typ, data)
	case f.Media == Protobuf:
		message, err := e.r.message(o)
		if err != nil {
			return err
		}
		return e.protobufFrame(w, typ, envelopeHead(e.r.messages.kind, len(message)), message, envelopeTail)
	case f.Media == CBOR:
		data, err := e.r.Object(o)
		if err != nil {
			return err
		}
		return cborFrame(w, string(typ), data)
	case f.As == AsPartial:
		data, err := e.r.partial(o)
		if err != nil {
			return err
		}
		return jsonFrame(w, typ, data)
	}
	data, err := e.r.json(o)
	if err != nil {
		return err
	}
	return jsonFrame(w, typ, data)
}

// Bookmark writes a BOOKMARK: an empty object with a resourceVersion and, if initialEnd, the annotation for the end of the initial events.
func (e *Events) Bookmark(w io.Writer, revision int64, initialEnd bool) error {
	hub := e.r.Served.New()
	m, err := meta.Accessor(hub)
	if err != nil {
		return err
	}
	if initialEnd {
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	m.SetResourceVersion(resources.FormatRevision(revision))
	versioned, err := e.r.Served.ToVersion(hub, e.r.Served.GroupVersion())
	if err != nil {
		return err
	}
	data, err := json.Marshal(versioned)
	if err != nil {
		return err
	}
	o := resources.LoadObject(resources.Key{}, revision, data, nil, nil)
	if e.r.Format.As == AsObject && e.r.Format.Media == JSON {
		return jsonFrame(w, watch.Bookmark, data)
	}
	if e.r.Format.As == AsTable {
		if err := e.printEmpty(o, hub); err != nil {
			return err
		}
	}
	// A bookmark as a Table is a row like any other.
	return e.bookmarkAs(w, o, versioned)
}

// printEmpty caches the cells of a bookmark's object. Decoding the object would set defaults, which a bookmark must not have.
func (e *Events) printEmpty(o *resources.Object, hub runtime.Object) error {
	_, err := o.Form(e.r.Served.FormID(resources.CellsForm, false), func() ([]byte, error) {
		row, err := e.r.Served.PrintRow(hub)
		if err != nil {
			return nil, err
		}
		var buf bytes.Buffer
		err = resources.WriteRow(&buf, row)
		return buf.Bytes(), err
	})
	return err
}

func (e *Events) bookmarkAs(w io.Writer, o *resources.Object, versioned runtime.Object) error {
	if e.r.Format.As != AsObject {
		stored := *e.r
		// Use its bytes, whatever fast paths are on, because it was never in the store.
		stored.stored, stored.copies, stored.metadataAsStored, stored.keepsCells = true, true, true, true
		frames := Events{r: &stored, apart: e.apart, headers: e.headers}
		err := frames.Event(w, watch.Bookmark, o)
		e.headers = frames.headers
		return err
	}
	data, err := Value(versioned, e.r.Format)
	if err != nil {
		return err
	}
	return e.binaryFrame(w, watch.Bookmark, data)
}

// Error writes the Status that ends a stream.
func (e *Events) Error(w io.Writer, s *metav1.Status) error {
	if media := e.r.Format.Media; media == Protobuf || media == CBOR {
		data, err := Value(s, Format{Media: media})
		if err != nil {
			return err
		}
		return e.binaryFrame(w, watch.Error, data)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return jsonFrame(w, watch.Error, data)
}

// jsonHeads are the beginnings of frames, by type of event.
var jsonHeads = func() map[watch.EventType][]byte {
	heads := map[watch.EventType][]byte{}
	for _, typ := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error} {
		heads[typ] = fmt.Appendf(nil, `{"type":%q,"object":`, string(typ))
	}
	return heads
}()

var jsonTail = []byte("}\n")

func jsonFrame(w io.Writer, typ watch.EventType, object []byte) error {
	if _, err := w.Write(jsonHeads[typ]); err != nil {
		return err
	}
	if _, err := w.Write(object); err != nil {
		return err
	}
	_, err := w.Write(jsonTail)
	return err
}

func (e *Events) binaryFrame(w io.Writer, typ watch.EventType, object []byte) error {
	if e.r.Format.Media == CBOR {
		return cborFrame(w, string(typ), object)
	}
	return e.protobufFrame(w, typ, object)
}

// prefixBytes is the size of the length prefix of a protobuf message.
const prefixBytes = 4

// protobufFrame writes a WatchEvent: its type and the object's own document, here in parts, after a length prefix.
func (e *Events) protobufFrame(w io.Writer, typ watch.EventType, document ...[]byte) error {
	size := 0
	for _, part := range document {
		size += len(part)
	}
	head := make([]byte, prefixBytes, 64)
	head = protowire.AppendTag(head, 1, protowire.BytesType)
	head = protowire.AppendString(head, string(typ))
	head = protowire.AppendTag(head, 2, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(protowire.SizeTag(1)+protowire.SizeBytes(size)))
	head = protowire.AppendTag(head, 1, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(size))
	binary.BigEndian.PutUint32(head, uint32(len(head)-prefixBytes+size))
	if e.apart {
		head = head[prefixBytes:]
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, part := range document {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
