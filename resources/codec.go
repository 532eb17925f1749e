package resources

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/typedjson"
	"github.com/rowlock/rowlock/resources/untypedjson"
)

// DecodeHub returns a stored object in the hub form. The result is the caller's own, but its strings may be parts of the stored bytes: a caller
// that keeps a string for long clones it.
//
// A conversion by a webhook may take ConversionPatience at most.
func (t *Type) DecodeHub(o *Object) (runtime.Object, error) {
	return t.DecodeHubInContext(context.Background(), o)
}

// DecodeHubInContext is DecodeHub for a request: a conversion by a webhook takes no longer than ctx lasts.
func (t *Type) DecodeHubInContext(ctx context.Context, o *Object) (runtime.Object, error) {
	gvk := t.StorageKind()
	if t.Converted != nil && !t.IsIn(o, t.Hub) {
		return t.decodeConverted(ctx, o)
	}
	versioned, err := t.DecodeStored(o)
	if err != nil {
		return nil, err
	}
	hub, err := t.ToHub(versioned)
	if err != nil {
		return nil, fmt.Errorf("convert %s from %s: %w", o.Key, gvk, err)
	}
	return hub, nil
}

// DecodeStored returns a stored object in the version it is stored in, with today's defaults.
func (t *Type) DecodeStored(o *Object) (runtime.Object, error) {
	gvk := t.StorageKind()
	stored := o.Stored()
	if t.Untyped && fastpath.StoredKind.On() {
		if obj := t.decodeUntyped(stored, gvk); obj != nil {
			return obj, nil
		}
		fastpath.StoredKind.Fallback()
	}
	if !t.Untyped && (fastpath.StoredKind.On() || typedjson.HasNull(stored)) {
		if obj := t.decodeKnown(stored, gvk); obj != nil {
			return obj, nil
		}
		fastpath.StoredKind.Fallback()
	}
	var creater runtime.ObjectCreater = t.Scheme
	if t.Untyped {
		creater = kindsOfGroup{t.Scheme, gvk.Group}
	}
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, creater, t.Scheme, json.SerializerOptions{})
	obj, _, err := s.Decode(stored, &gvk, nil)
	if runtime.IsNotRegisteredError(err) { // a server of a later version may have stored it
		return nil, fmt.Errorf("decode %s: %w", o.Key, err)
	}
	if err != nil {
		return nil, &DecodeError{o.Key, err}
	}
	t.complete(obj)
	return obj, nil
}

// kindsOfGroup makes objects of any kind of a group without Go types. A definition may have been deleted and made again with another kind:
// history then has objects of the earlier kind under the same resource. They are shown with their own kind, as by kube-apiserver.
type kindsOfGroup struct {
	runtime.ObjectCreater
	group string
}

// New implements runtime.ObjectCreater.
func (k kindsOfGroup) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	if kind.Group != k.group {
		return k.ObjectCreater.New(kind)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// complete fills in today's defaults of a stored object. For a kind without a Go type, whose fields no decoder checks, it also drops the fields
// that the schema does not have.
func (t *Type) complete(versioned runtime.Object) {
	if c, ok := t.Scheme.(completer); ok {
		c.Complete(versioned)
		return
	}
	t.Scheme.Default(versioned)
}

type completer interface {
	Complete(versioned runtime.Object)
	Settle(versioned runtime.Object) error
}

// settle is complete for an object that is about to be stored, made by a decoded request, a patch or a webhook. It returns an error for a
// problem that no rules of the type have found.
func (t *Type) settle(versioned runtime.Object) error {
	if c, ok := t.Scheme.(completer); ok {
		return c.Settle(versioned)
	}
	t.Scheme.Default(versioned)
	if t.Normalize != nil {
		t.Normalize(versioned)
	}
	return nil
}

// decodeKnown decodes data that begins with the expected kind, as everything does that this version stored. A serializer parses the data once
// more to find the kind, which would double the cost. It returns nil for another kind, and for any other problem.
func (t *Type) decodeKnown(data []byte, gvk schema.GroupVersionKind) runtime.Object {
	if !bytes.HasPrefix(data, t.Head(gvk.GroupVersion())) {
		return nil
	}
	obj, err := t.Scheme.New(gvk)
	if err == nil && !typedjson.DecodeStored(data, obj) {
		if obj, err = t.Scheme.New(gvk); err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(data, obj)
		}
	}
	if err != nil {
		return nil
	}
	t.Scheme.Default(obj)
	return obj
}

// decodeUntyped decodes an object without a Go type that has the expected kind. It returns nil for any other kind, and for any other problem.
func (t *Type) decodeUntyped(data []byte, gvk schema.GroupVersionKind) runtime.Object {
	obj, err := t.Scheme.New(gvk)
	if err != nil {
		return nil
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	object, read := untypedjson.Decode(data)
	if !read && kjson.UnmarshalCaseSensitivePreserveInts(data, &object) != nil || object["kind"] != gvk.Kind || object["apiVersion"] != gvk.GroupVersion().String() {
		return nil
	}
	u.Object = object
	t.complete(u)
	return u
}

// ToHub converts an object of a served version to the hub form of the version's own group (an Event has one Go type for two groups). The two may
// share memory: a caller must not keep one and change the other.
func (t *Type) ToHub(versioned runtime.Object) (runtime.Object, error) {
	var to runtime.GroupVersioner = runtime.InternalGroupVersioner
	if !t.Hub.Empty() {
		to = t.Hub
	}
	if c, ok := t.Scheme.(unsafeConvertor); ok {
		return c.UnsafeConvertToVersion(versioned, to)
	}
	return t.Scheme.ConvertToVersion(versioned, to)
}

// ToVersion converts an object of the hub form to a version, apiVersion and kind set. The two may share memory.
func (t *Type) ToVersion(hub runtime.Object, gv schema.GroupVersion) (runtime.Object, error) {
	if c, ok := t.Scheme.(unsafeConvertor); ok {
		return c.UnsafeConvertToVersion(hub, gv)
	}
	return t.Scheme.ConvertToVersion(hub, gv)
}

func (t *Type) toVersion(ctx context.Context, hub runtime.Object, gv schema.GroupVersion) (runtime.Object, error) {
	if c, ok := t.Scheme.(contextConvertor); ok {
		return c.ConvertInContext(ctx, hub, gv)
	}
	return t.ToVersion(hub, gv)
}

// contextConvertor is a scheme that may have to call a conversion webhook.
type contextConvertor interface {
	ConvertInContext(ctx context.Context, in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

type unsafeConvertor interface {
	UnsafeConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

// NewDraft encodes an object in the hub form for the store. It overwrites the object's resourceVersion.
//
// Some defaults depend on fields that a strategy has set since the object was decoded (a Job takes the labels of its template, a claim without a
// phase is Pending). kube-apiserver sets them when it reads the object back; here they are stored, because the stored bytes are copied to
// clients unchanged.
//
// A conversion to the storage version by a webhook takes no longer than ctx lasts.
func (t *Type) NewDraft(ctx context.Context, hub runtime.Object) (Draft, error) {
	in := t.StorageVersion
	if t.StoredIn != nil {
		in = t.StoredIn(hub)
	}
	return t.newDraft(ctx, hub, in)
}

func (t *Type) newDraft(ctx context.Context, hub runtime.Object, in schema.GroupVersion) (Draft, error) {
	m, err := meta.Accessor(hub)
	if err != nil {
		return Draft{}, err
	}
	sent, selfLink := m.GetResourceVersion(), m.GetSelfLink()
	m.SetResourceVersion(PlaceholderRevision)
	m.SetSelfLink("") // is never stored, whatever a client sends
	versioned, err := t.toVersion(ctx, hub, in)
	if err != nil {
		return Draft{}, err
	}
	if err := t.settle(versioned); err != nil {
		return Draft{}, err
	}
	var parts []string
	if t.Lean != nil {
		parts = t.Lean.Shorten(versioned)
	}
	data, err := t.encode(versioned)
	if err != nil {
		return Draft{}, err
	}
	if bytes.Contains(data, emptyList) && forgetEmptyLists(reflect.ValueOf(versioned)) {
		if data, err = t.encode(versioned); err != nil {
			return Draft{}, err
		}
	}
	if len(parts) > 0 {
		if data, err = t.Lean.Insert(data, parts); err != nil {
			return Draft{}, err
		}
	}
	d, ok := DraftOf(data)
	d.sent, d.selfLink = sent, selfLink
	if len(data) >= measured && !t.storedAsJSON() {
		d.Protobuf = protobufSize(versioned)
	}
	if !ok {
		return Draft{}, fmt.Errorf("%s was encoded without a resourceVersion", t.Kind)
	}
	if t.Untyped {
		hub = versioned // attributes are read from any version, so this needs no conversion webhook
	} else if hub, err = t.ToHub(versioned); err != nil {
		return Draft{}, err
	}
	err = t.describe(&d, hub)
	return d, err
}

// storedAsJSON reports whether kube-apiserver stores the type as JSON, although it has protobuf: the servers of these groups do (their LegacyCodec).
func (t *Type) storedAsJSON() bool {
	return t.Group == "apiextensions.k8s.io" || t.Group == "apiregistration.k8s.io"
}

// measured is how many bytes of JSON an object has before it is measured in protobuf, too.
const measured = 64 << 10

// protobufSize returns how many bytes kube-apiserver would store of an object of a built-in type, about as many as of its texts; 0: the type has no
// protobuf. JSON escapes take up to six bytes each, so that a ConfigMap which kube-apiserver takes would have more than etcd's limit.
func protobufSize(versioned runtime.Object) int {
	sized, ok := versioned.(interface{ Size() int })
	if !ok {
		return 0
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Kind"}}
	return envelope.Size() + sized.Size()
}

// encode returns the JSON of an object as it is stored, without spare capacity: it may be kept for long.
func (t *Type) encode(versioned runtime.Object) ([]byte, error) {
	room := encodeRoom.Get().(*[]byte)
	defer encodeRoom.Put(room)
	if data, asSent, ok := typedjson.AppendStored((*room)[:0], versioned); ok {
		if asSent || t.hides(data) {
			data = append(data, notShown)
		}
		*room = data
		return bytes.Clone(data), nil
	}
	var buf bytes.Buffer
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, t.Scheme, t.Scheme, json.SerializerOptions{})
	err := s.Encode(versioned, &buf)
	if err != nil {
		return nil, err
	}
	data := bytes.TrimRight(buf.Bytes(), "\n")
	if t.Untyped && bytes.Contains(data, []byte("-0")) {
		var again unstructured.Unstructured // -0 is read as a whole number, which has no sign
		if err := again.UnmarshalJSON(data); err != nil {
			return nil, err
		}
		if data, err = again.MarshalJSON(); err != nil {
			return nil, err
		}
		data = bytes.TrimRight(data, "\n")
	}
	if t.hides(data) {
		data = append(data, notShown)
	}
	return data, nil
}

// encodeRoom has the buffers in which objects are encoded before their size is known.
var encodeRoom = sync.Pool{New: func() any { return new([]byte) }}

// emptyList occurs in every text that has an empty list, and in few others. It begins with a rare byte; a pattern with the colon would stop the
// search at every colon.
var emptyList = []byte("[]")

// forgetEmptyLists makes empty lists null, below structs, pointers and lists. kube-apiserver stores built-in types as protobuf, which does not
// distinguish the two, so that clients see null even where they have sent an empty list (the rules of a ClusterRole, say). Objects without a Go
// type are not structs and stay unchanged. It reports whether it found an empty list.
func forgetEmptyLists(v reflect.Value) (found bool) {
	switch v.Kind() {
	case reflect.Pointer:
		return forgetEmptyLists(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				found = forgetEmptyLists(field) || found
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false // raw data
		}
		if v.Len() == 0 {
			found = !v.IsNil()
			v.SetZero()
			return found
		}
		for i := range v.Len() {
			found = forgetEmptyLists(v.Index(i)) || found
		}
	}
	return found
}

// describe sets the parts of a draft that a store keeps besides the bytes.
func (t *Type) describe(d *Draft, hub runtime.Object) error {
	l, f, err := t.Attrs(hub)
	if err != nil {
		return err
	}
	// These stay as long as the object. The strings are clones: parts of the request would keep the whole request in memory.
	if len(l) > 0 {
		d.Labels = make(labels.Set, len(l))
	}
	for name, value := range l {
		d.Labels[strings.Clone(name)] = strings.Clone(value)
	}
	for name, value := range f {
		if name != "metadata.name" && name != "metadata.namespace" {
			if d.Fields == nil {
				d.Fields = fields.Set{}
			}
			d.Fields[name] = strings.Clone(value)
		}
	}
	if t.Untyped {
		return nil // its columns belong to one version, and may change while the object stays
	}
	// The object is at hand now: to decode it again for the first request of a Table would cost ten times as much.
	d.Cells, err = t.Cells(hub)
	return err
}
