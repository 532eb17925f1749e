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

// DecodeHub returns a stored object in the hub form. The result is the caller's own, but that its strings may be parts of
// the stored bytes: who keeps one for long clones it.
//
// Where somebody else has to be asked for that, they are asked for ConversionPatience at most.
func (t *Type) DecodeHub(o *Object) (runtime.Object, error) {
	return t.DecodeHubInContext(context.Background(), o)
}

// DecodeHubInContext is DecodeHub for a request: nobody is asked for longer than ctx lasts.
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

// kindsOfGroup makes objects of any kind of a group without Go types. History has objects of the name of the resource from before its definition
// was deleted and made again, perhaps with another kind. They are shown with the kind that they had, as by kube-apiserver.
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

// complete fills in today's defaults of what was stored. A kind without a Go type, whose fields no decoder knows,
// loses those that nobody knows, too.
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

// settle is complete for what is to be stored, whoever made it: a request that was decoded, a patch, a webhook. Where something is wrong
// that no rules of the type have found, it is an error.
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

// decodeKnown decodes what begins with the kind that is expected, as everything does that was stored by this version. To
// find that out by parsing, as a serializer does, would cost as much again. It returns nil when the kind is another, and when
// there is anything wrong.
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

// decodeUntyped decodes an object without a Go type that says the kind that is expected. It returns nil for any other, and where there is
// anything wrong.
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

// ToHub converts an object of a served version to the hub form, that of the version's own group (an Event has one Go
// type for two groups). The two may share memory: neither outlives the other.
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

// contextConvertor is a scheme that may have to ask somebody.
type contextConvertor interface {
	ConvertInContext(ctx context.Context, in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

type unsafeConvertor interface {
	UnsafeConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

// NewDraft encodes an object in the hub form for the store. The object's resourceVersion is overwritten.
//
// Some defaults depend on what a strategy has set since the object was decoded (a Job takes the labels of its template, a
// claim without a phase is Pending). kube-apiserver sets them when it reads the object back; here they are stored, because
// what is stored is copied to clients as it is.
//
// Where somebody else has to be asked for the version that is stored, they are asked no longer than ctx lasts.
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
	if !ok {
		return Draft{}, fmt.Errorf("%s was encoded without a resourceVersion", t.Kind)
	}
	if t.Untyped {
		hub = versioned // attributes are read of any version: nobody has to be asked for the hub form
	} else if hub, err = t.ToHub(versioned); err != nil {
		return Draft{}, err
	}
	err = t.describe(&d, hub)
	return d, err
}

// encode returns the JSON of an object as it is stored, with no room behind it: it may be kept for long.
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

// encodeRoom has the room in which objects are encoded before their size is known.
var encodeRoom = sync.Pool{New: func() any { return new([]byte) }}

// emptyList is what a text with an empty list has in it, and few others. It begins with a byte that is rare, or the search would stop
// at every colon.
var emptyList = []byte("[]")

// forgetEmptyLists makes empty lists null, below structs, pointers and lists. kube-apiserver stores built-in types as
// protobuf, which does not tell the two apart, so that clients see null even where they have sent an empty list (the
// rules of a ClusterRole, say). Objects without a Go type are no structs and stay as they are. It tells whether there
// was any.
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

// describe notes what a store keeps of an object besides its bytes.
func (t *Type) describe(d *Draft, hub runtime.Object) error {
	l, f, err := t.Attrs(hub)
	if err != nil {
		return err
	}
	// These stay as long as the object does. The strings are clones, or they would keep the whole request with them.
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
		return nil // its columns are those of one version, and may change while it stays
	}
	// While the object is at hand: to decode it again for the first who wants a Table would cost ten times as much.
	d.Cells, err = t.Cells(hub)
	return err
}
