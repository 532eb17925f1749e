package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unsafe"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources"
)

// Renderer makes the bytes of objects of one served type in one format.
type Renderer struct {
	Served *resources.Served
	Format Format

	// prefix is how the JSON of every object begins; the items of a list do without.
	prefix []byte
	// stored: the stored bytes are those of the version asked for.
	stored bool
	// protobufForm is the form of an object that is its protobuf message.
	protobufForm string
	bulk         *bulk // nil: one object, or one event
}

// NewRenderer returns a Renderer.
func NewRenderer(s *resources.Served, f Format) *Renderer {
	return &Renderer{Served: s, Format: f, prefix: kindPrefix(s.GroupVersionKind),
		stored:       s.GroupVersion() == s.StorageVersion || s.StorageVersion.Empty(),
		protobufForm: "protobuf " + s.GroupVersion().String()}
}

func kindPrefix(gvk schema.GroupVersionKind) []byte {
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,`, gvk.Kind, gvk.GroupVersion().String())
}

// Object returns the whole document of an object. The bytes are shared.
func (r *Renderer) Object(o *resources.Object) ([]byte, error) {
	switch r.Format.As {
	case AsTable:
		m := metav1.ListMeta{}
		if o.Revision != 0 { // as it is for what a dry run has made
			m.ResourceVersion = resources.FormatRevision(o.Revision)
		}
		t, err := r.table([]*resources.Object{o}, m, true)
		if err != nil {
			return nil, err
		}
		return r.finish(t)
	case AsPartial:
		if r.Format.AsList {
			return nil, partialListError(r.Served.New())
		}
		if r.Format.Media == Protobuf {
			return r.partialProtobuf(o)
		}
		if r.Format.Media != CBOR {
			return r.finish(r.partial(o))
		}
	}
	if r.Format.Media == CBOR {
		data, err := r.cborObject(o)
		return marked(data), err
	}
	if r.Format.Media == Protobuf {
		raw, err := r.protobuf(o)
		if err != nil {
			return nil, err
		}
		return envelope(r.Served.GroupVersionKind, raw), nil
	}
	data, err := r.json(o)
	if err != nil {
		return nil, err
	}
	return r.finish(data)
}

// finish makes compact JSON into what is sent: JSON on a line, indented JSON, or YAML.
func (r *Renderer) finish(data []byte) ([]byte, error) { return finish(data, r.Format) }

func finish(data []byte, f Format) ([]byte, error) {
	switch {
	case f.Media == YAML:
		return yaml.JSONToYAML(data)
	case f.Pretty:
		var buf bytes.Buffer
		err := json.Indent(&buf, data, "", "  ")
		return buf.Bytes(), err
	}
	out := make([]byte, 0, len(data)+1)
	return append(append(out, data...), '\n'), nil
}

// json returns the compact JSON of the version asked for, apiVersion and kind included.
func (r *Renderer) json(o *resources.Object) ([]byte, error) {
	if r.stored && bytes.HasPrefix(o.Data, r.prefix) {
		return o.Data, nil
	}
	return r.form(o, "json "+r.Served.GroupVersion().String(), func() ([]byte, error) {
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

// item returns the JSON of an object within a list: without kind and apiVersion, as a typed list has it.
func (r *Renderer) item(o *resources.Object) (head, rest []byte, err error) {
	data, err := r.json(o)
	if err != nil {
		return nil, nil, err
	}
	if bytes.HasPrefix(data, r.prefix) {
		return openBrace, data[len(r.prefix):], nil
	}
	return nil, data, nil
}

var openBrace = []byte("{")

// partialForm is the form of an object that is its metadata as a protobuf message.
const partialForm = "protobuf partial"

// versioned decodes an object into the version asked for.
func (r *Renderer) versioned(o *resources.Object) (runtime.Object, error) {
	if r.stored {
		return r.Served.DecodeStored(o)
	}
	hub, err := r.Served.DecodeHub(o)
	if err != nil {
		return nil, err
	}
	return r.Served.ToVersion(hub, r.Served.GroupVersion())
}

type marshaler interface{ Marshal() ([]byte, error) }

// protobuf returns the message of an object, without the envelope.
func (r *Renderer) protobuf(o *resources.Object) ([]byte, error) {
	if data := o.Kept(r.protobufForm); data != nil {
		return data, nil
	}
	return r.form(o, r.protobufForm, func() ([]byte, error) {
		obj, err := r.versioned(o)
		if err != nil {
			return nil, err
		}
		m, ok := obj.(marshaler)
		if !ok {
			return nil, fmt.Errorf("%T cannot be encoded as protobuf", obj)
		}
		return m.Marshal()
	})
}

var protobufMagic = []byte("k8s\x00")

// envelope wraps a message as "Kubernetes Protobuf encoding" of the API concepts page has it.
func envelope(gvk schema.GroupVersionKind, raw []byte) []byte {
	return append(envelopeHead(gvk, len(raw)), append(raw[:len(raw):len(raw)], envelopeTail...)...)
}

// envelopeTail are contentEncoding and contentType, both empty, as kube-apiserver writes them.
var envelopeTail = []byte{0x1a, 0x00, 0x22, 0x00}

// envelopeHead is what stands before a message of a given size.
func envelopeHead(gvk schema.GroupVersionKind, size int) []byte {
	apiVersion := gvk.GroupVersion().String()
	var typeMeta []byte
	typeMeta = protowire.AppendTag(typeMeta, 1, protowire.BytesType)
	typeMeta = protowire.AppendString(typeMeta, apiVersion)
	typeMeta = protowire.AppendTag(typeMeta, 2, protowire.BytesType)
	typeMeta = protowire.AppendString(typeMeta, gvk.Kind)

	out := append(make([]byte, 0, len(typeMeta)+size+24), protobufMagic...)
	out = protowire.AppendTag(out, 1, protowire.BytesType)
	out = protowire.AppendBytes(out, typeMeta)
	out = protowire.AppendTag(out, 2, protowire.BytesType)
	return protowire.AppendVarint(out, uint64(size))
}

// partial returns the JSON of an object's metadata as a PartialObjectMetadata.
func (r *Renderer) partial(o *resources.Object) []byte {
	head, m := r.partialHead(), metadataOf(o)
	out := make([]byte, 0, len(head)+len(m)+1)
	return append(append(append(out, head...), m...), '}')
}

// metadataOf returns the JSON of an object's metadata, in the place where it is: to copy it for each object of a list
// would make as much garbage as the list is long.
func metadataOf(o *resources.Object) string {
	if len(o.Data) == 0 {
		return ""
	}
	return gjson.Get(unsafe.String(&o.Data[0], len(o.Data)), "metadata").Raw // nobody writes to the bytes of an object
}

func (r *Renderer) partialHead() string {
	return `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/` + r.Format.AsVersion + `","metadata":`
}

func (r *Renderer) partialKind(list string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: r.Format.AsVersion, Kind: "PartialObjectMetadata" + list}
}

func (r *Renderer) partialProtobuf(o *resources.Object) ([]byte, error) {
	raw, err := r.partialMessage(o)
	if err != nil {
		return nil, err
	}
	return envelope(r.partialKind(""), raw), nil
}

func (r *Renderer) partialMessage(o *resources.Object) ([]byte, error) {
	return r.form(o, partialForm, func() ([]byte, error) {
		var p metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(metadataOf(o)), &p.ObjectMeta); err != nil {
			return nil, err
		}
		return p.Marshal()
	})
}

// Value encodes any object that is not stored (a Status, a Scale, the answer to a review) in the format's media type.
// versioned must have its kind set.
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

// VersionedJSON returns the JSON of an object in the version that is served: what a patch is made against.
func VersionedJSON(s *resources.Served, o *resources.Object) ([]byte, error) {
	return NewRenderer(s, Format{}).json(o)
}
