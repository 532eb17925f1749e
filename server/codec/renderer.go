package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// Renderer renders objects of one served type in one format.
type Renderer struct {
	Served *resources.Served
	Format Format

	// head is the beginning of every object's JSON; see resources.Type.Head.
	head []byte
	// stored is set if the requested version is the storage version.
	stored bool
	// copies, metadataAsStored and keepsCells are the fast paths stored-json, metadata and cells.
	copies, metadataAsStored, keepsCells bool
	// messages encodes protobuf; it is set for that format alone.
	messages messages
	bulk     *bulk // nil: one object, or one event
	// converted has the JSON of the objects of a list that a webhook has converted.
	converted map[*resources.Object][]byte
}

// NewRenderer returns a Renderer.
func NewRenderer(s *resources.Served, f Format) *Renderer {
	r := &Renderer{Served: s, Format: f, head: s.Head(s.GroupVersion()),
		stored: s.GroupVersion() == s.StorageVersion || s.StorageVersion.Empty(),
		copies: fastpath.StoredJSON.On(), metadataAsStored: fastpath.Metadata.On(), keepsCells: fastpath.Cells.On()}
	if f.Media == Protobuf {
		r.messages = r.newMessages()
	}
	return r
}

// Object renders an object as a document. The bytes are shared.
func (r *Renderer) Object(o *resources.Object) ([]byte, error) {
	switch r.Format.As {
	case AsTable:
		m := metav1.ListMeta{}
		if o.Revision != 0 { // the result of a dry run has none
			m.ResourceVersion = resources.FormatRevision(o.Revision)
		}
		t, err := r.table([]*resources.Object{o}, m, true)
		if err != nil {
			return nil, err
		}
		return r.finish(t)
	case AsPartial:
		if r.Format.AsList {
			return nil, r.partialListError()
		}
		if r.Format.Media != CBOR && r.Format.Media != Protobuf {
			data, err := r.partial(o)
			if err != nil {
				return nil, err
			}
			return r.finish(data)
		}
	}
	if r.Format.Media == CBOR {
		data, err := r.cborObject(o)
		return marked(data), err
	}
	if r.Format.Media == Protobuf {
		raw, err := r.message(o)
		if err != nil {
			return nil, err
		}
		return envelope(r.messages.kind, raw), nil
	}
	data, err := r.json(o)
	if err != nil {
		return nil, err
	}
	return r.finish(data)
}

// Pieces renders an object as Object does, in two pieces, the second of which may be empty. Thus a cached document need not be copied to append a
// newline. The bytes are shared.
func (r *Renderer) Pieces(o *resources.Object) (document, end []byte, err error) {
	if r.Format.As != AsObject || r.Format.Media != JSON || r.Format.Pretty {
		document, err = r.Object(o)
		return document, nil, err
	}
	document, err = r.json(o)
	return document, newline, err
}

// finish converts compact JSON to the format: JSON on one line, indented JSON, or YAML.
func (r *Renderer) finish(data []byte) ([]byte, error) { return finish(data, r.Format) }

func finish(data []byte, f Format) ([]byte, error) {
	if f.Media == YAML {
		return ToYAML(data)
	}
	if f.Pretty {
		if n := indentedLen(data, 0); n <= indentedMost {
			var buf bytes.Buffer
			buf.Grow(n)
			err := json.Indent(&buf, data, "", "  ")
			return buf.Bytes(), err
		}
	}
	out := make([]byte, 0, len(data)+1)
	return append(append(out, data...), '\n'), nil
}

// indentedMost bounds the size in bytes of an indented object: far more than any written by people, which has some ten levels. JSON that would
// exceed it is sent on one line, and YAML is rejected.
const indentedMost = 64 << 20

// ToYAML converts JSON to YAML, in turn if it is long. It rejects, with 406, deeply nested JSON whose YAML would be too long.
func ToYAML(data []byte) (text []byte, err error) {
	if err := checkYAML(data); err != nil {
		return nil, err
	}
	err = InTurn(context.Background(), data, func() (err error) {
		text, err = yaml.JSONToYAML(data)
		return err
	})
	return text, err
}

func checkYAML(data []byte) error {
	if len(data) > mayBeDeep && indentedLen(data, 0) > indentedMost {
		return notAcceptable("the object is nested too deeply to be written as YAML, ask for JSON")
	}
	return nil
}

// indentedLen is the length of compact JSON after indentation, at a given depth. It grows with length times depth: 0.8 MB with 9,000 levels, which
// a custom resource may have, become 7 GB.
func indentedLen(data []byte, depth int) int {
	n, quoted := len(data), false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == ':':
			n++
		case (c == '{' || c == '[') && i+1 < len(data) && data[i+1] == c+2: // empty
			i++
		case c == '{' || c == '[':
			depth++
			n += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			n += 1 + 2*depth
		case c == ',':
			n += 1 + 2*depth
		}
	}
	return max(n, 0) // negative only for invalid JSON
}

// asStored tells whether an object is stored in the requested version. An older release may have stored it in another one than today's.
func (r *Renderer) asStored(o *resources.Object) bool {
	return r.stored && (bytes.HasPrefix(o.Data, r.head) || r.Served.ShowsStored())
}

// converts tells whether rendering an object in the requested version needs a conversion webhook.
func (r *Renderer) converts(o *resources.Object) bool {
	return r.Served.Converted != nil && !r.Served.IsIn(o, r.Served.GroupVersion())
}

// asShown tells whether the stored bytes are those of the requested version.
func (r *Renderer) asShown(o *resources.Object) bool {
	return r.asStored(o) && (r.Served.Current == nil || r.Served.Current(o))
}

// json returns the compact JSON in the requested version, with apiVersion and kind.
func (r *Renderer) json(o *resources.Object) ([]byte, error) {
	if r.copies && r.stored {
		if r.asShown(o) {
			return o.Data, nil
		}
		fastpath.StoredJSON.Fallback()
	}
	if r.converts(o) {
		if made := r.converted[o]; made != nil {
			return made, nil
		}
		ctx, cancel := resources.Patiently(context.Background())
		defer cancel()
		made, err := r.Served.Converted(ctx, []*resources.Object{o})
		if err != nil {
			return nil, err
		}
		return made[0], nil
	}
	return r.form(o, r.Served.FormID("json "+r.Served.GroupVersion().String(), true), func() ([]byte, error) {
		obj, err := r.versioned(o)
		if err != nil {
			return nil, err
		}
		var buf bytes.Buffer
		s := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, r.Served.Scheme, r.Served.Scheme, kjson.SerializerOptions{})
		err = s.Encode(obj, &buf)
		return bytes.TrimRight(buf.Bytes(), "\n"), err
	})
}

// item returns the JSON of an object as an item of a list, in two parts.
func (r *Renderer) item(o *resources.Object) (open, rest []byte, err error) {
	data, err := r.json(o)
	if err != nil || !bytes.HasPrefix(data, r.head) {
		return nil, data, err
	}
	open, rest = r.Served.Item(data, r.head)
	return open, rest, nil
}

// versioned decodes an object into the requested version.
func (r *Renderer) versioned(o *resources.Object) (runtime.Object, error) {
	o = o.Shown()
	if r.asStored(o) {
		return r.Served.DecodeStored(o)
	}
	hub, err := r.Served.DecodeHub(o)
	if err != nil {
		return nil, err
	}
	return r.Served.ToVersion(hub, r.Served.GroupVersion())
}

// partial returns the JSON of an object's metadata as a PartialObjectMetadata.
func (r *Renderer) partial(o *resources.Object) ([]byte, error) {
	m, err := r.metadata(o)
	if err != nil {
		return nil, err
	}
	head := r.partialHead()
	out := make([]byte, 0, len(head)+len(m)+1)
	return append(append(append(out, head...), m...), '}'), nil
}

// metadata returns the JSON of an object's metadata, as in the hub version.
func (r *Renderer) metadata(o *resources.Object) (string, error) {
	m, name := resources.MetadataOf(o.Data), r.Served.FieldAnnotation
	if r.Served.Untyped {
		return r.typedMetadata(o, m) // without the hub version, which may need a conversion webhook
	}
	if !r.metadataAsStored {
		return r.hubMetadata(o)
	}
	if name == "" || gjson.Get(m, "annotations."+gjson.Escape(name)).Str == "" {
		return m, nil
	}
	fastpath.Metadata.Fallback()
	data, err := r.form(o, "hub metadata", func() ([]byte, error) {
		var hub metav1.ObjectMeta
		if err := json.Unmarshal([]byte(m), &hub); err != nil {
			return nil, err
		}
		delete(hub.Annotations, name)
		return json.Marshal(&hub)
	})
	return string(data), err
}

// typedMetadata re-encodes untyped metadata in the field order of ObjectMeta, without empty fields.
func (r *Renderer) typedMetadata(o *resources.Object, m string) (string, error) {
	data, err := r.form(o, "typed metadata", func() ([]byte, error) {
		var typed metav1.ObjectMeta
		if err := json.Unmarshal([]byte(m), &typed); err != nil {
			return nil, err
		}
		return json.Marshal(&typed)
	})
	return string(data), err
}

// hubMetadata encodes the metadata of the hub version itself.
func (r *Renderer) hubMetadata(o *resources.Object) (string, error) {
	hub, err := r.Served.DecodeHub(o)
	if err != nil {
		return "", err
	}
	m, err := meta.Accessor(hub)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(meta.AsPartialObjectMetadata(m).ObjectMeta)
	return string(data), err
}

func (r *Renderer) partialHead() string {
	return `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/` + r.Format.AsVersion + `","metadata":`
}

func (r *Renderer) partialKind(list string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: r.Format.AsVersion, Kind: "PartialObjectMetadata" + list}
}

// Value encodes any object that is not stored (a Status, a Scale, the response to a review) in the format's media type. Its kind must be set.
func Value(obj runtime.Object, f Format) ([]byte, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if f.Media == Protobuf {
		m, ok := obj.(marshaler)
		if !ok {
			return nil, fmt.Errorf("%T cannot be encoded as protobuf", obj)
		}
		raw, err := m.Marshal()
		if err != nil {
			return nil, err
		}
		return envelope(gvk, raw), nil
	}
	if f.Media == CBOR {
		return cborValue(obj)
	}
	var buf bytes.Buffer
	if err := json.NewEncoder(&buf).Encode(obj); err != nil {
		return nil, err
	}
	return finish(bytes.TrimRight(buf.Bytes(), "\n"), f)
}

// VersionedJSON returns the JSON of an object in the served version, to which patches are applied.
func VersionedJSON(s *resources.Served, o *resources.Object) ([]byte, error) {
	return NewRenderer(s, Format{}).Versioned(o)
}

// Versioned returns the compact JSON of an object in the served version, whatever the format. The bytes are shared.
func (r *Renderer) Versioned(o *resources.Object) ([]byte, error) { return r.json(o) }
