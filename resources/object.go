package resources

import (
	"strconv"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Key names one object: its resource type as it is stored, its namespace (empty for cluster-scoped types), its name.
type Key struct {
	// Resource is the storage identity of the type, schema.GroupResource in string form: "pods", "deployments.apps".
	Resource  string
	Namespace string
	Name      string
}

// Path is the place of the object among those of its type: "namespace/name", or "name" for cluster-scoped types. The
// bytewise order of paths is the order of a list, as it is kube-apiserver's.
func (k Key) Path() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// InEtcd is the key that kube-apiserver would give the object in etcd: clients see it in errors.
func (k Key) InEtcd() string {
	prefix, ok := upstream.EtcdPrefixes[k.Resource]
	if !ok {
		resource, group, grouped := strings.Cut(k.Resource, ".")
		prefix = resource
		if name, _ := strings.CutSuffix(group, ".k8s.io"); grouped && strings.Contains(group, ".") && !strings.Contains(withoutGroup, " "+name+" ") {
			prefix = group + "/" + resource
		}
	}
	return "/registry/" + prefix + "/" + k.Path()
}

// withoutGroup lists the groups, without their suffix k8s.io, whose keys omit the group; the keys of definitions, of APIServices and of
// all resources that definitions define contain it.
const withoutGroup = " admissionregistration authentication authorization certificates coordination discovery events flowcontrol.apiserver " +
	"internal.apiserver lifecycle networking node rbac.authorization resource scheduling storage storagemigration "

func (k Key) String() string { return k.Resource + "/" + k.Path() }

// SplitPath is the inverse of Key.Path.
func SplitPath(path string) (namespace, name string) {
	if i := strings.IndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// Draft is the new state of an object on its way to the store, which gives it its revision.
type Draft struct {
	// Data is the object in its storage version as JSON, laid out as layout.go says, with a metadata.resourceVersion
	// whose value is to be replaced. See Type.NewDraft.
	Data []byte
	// RevisionStart and RevisionEnd delimit the digits of metadata.resourceVersion within Data.
	RevisionStart, RevisionEnd int
	// Protobuf is how many bytes kube-apiserver would store, in protobuf; 0: as many as Data has, or Data is small.
	Protobuf int
	// Labels are metadata.labels.
	Labels labels.Set
	// Fields are the selectable fields of the type other than metadata.name and metadata.namespace.
	Fields fields.Set
	// Cells are kept as the form CellsForm of the object; empty when the row has to be printed each time.
	Cells []byte

	// sent and selfLink are values that a dry run returns as they were sent; they are never stored.
	sent, selfLink string
}

// Size returns the size in bytes that limits of an object's size are about: that in protobuf where it is known and the smaller one.
func (d *Draft) Size() int {
	if d.Protobuf > 0 {
		return min(d.Protobuf, len(d.Data))
	}
	return len(d.Data)
}

// PlaceholderRevision is the resourceVersion that an encoder writes where the store puts the real one.
const PlaceholderRevision = "0"

// WithRevision returns data with the digits between start and end replaced, and the new end.
func WithRevision(data []byte, start, end int, revision int64) ([]byte, int) {
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], revision, 10)
	out := make([]byte, 0, len(data)-(end-start)+len(d))
	out = append(out, data[:start]...)
	out = append(out, d...)
	out = append(out, data[end:]...)
	return out, start + len(d)
}

// Object is one revision of one object. It is immutable and shared: by the cache, by events, by responses being written.
type Object struct {
	Key
	Revision int64
	// Data is the complete object in its storage version as JSON, metadata.resourceVersion included, as clients see it; see Stored.
	Data []byte
	// Labels are metadata.labels.
	Labels labels.Set
	// Fields are the selectable fields other than metadata.name and metadata.namespace.
	Fields fields.Set

	revisionStart, revisionEnd int
	labelSketch, fieldSketch   sketch // of Labels and Fields; see sketch.go
	forms                      formCache
	packing                    *packing // see packed.go; nil for all other objects
}

// NewObject gives a draft its revision. A draft without a resourceVersion (a dry run's) is taken unchanged.
func NewObject(key Key, d Draft, revision int64) *Object {
	if d.RevisionEnd == 0 {
		o := &Object{Key: key, Revision: revision, Data: d.Data, Labels: d.Labels, Fields: d.Fields}
		o.sketch()
		o.show()
		return o
	}
	data, end := WithRevision(d.Data, d.RevisionStart, d.RevisionEnd, revision)
	o := &Object{Key: key, Revision: revision, Data: data, Labels: d.Labels, Fields: d.Fields,
		revisionStart: d.RevisionStart, revisionEnd: end}
	o.forms.head.Store(&form{id: CellsForm, data: d.Cells})
	o.sketch()
	o.show()
	return o
}

// LoadObject restores an object that NewObject made and a database kept.
func LoadObject(key Key, revision int64, data []byte, l labels.Set, f fields.Set) *Object {
	o := &Object{Key: key, Revision: revision, Data: data, Labels: l, Fields: f}
	o.revisionStart, o.revisionEnd, _ = RevisionSpan(data)
	o.sketch()
	o.show()
	return o
}

// At returns the same state under another revision: for a watcher's event that an object was deleted, or no longer matches the selector.
func (o *Object) At(revision int64) *Object {
	if o.Unreadable() != nil {
		return Unreadable(o.Key, revision, o.packing.unreadable.Err)
	}
	data, end := WithRevision(o.Data, o.revisionStart, o.revisionEnd, revision)
	at := &Object{Key: o.Key, Revision: revision, Data: data, Labels: o.Labels, Fields: o.Fields,
		revisionStart: o.revisionStart, revisionEnd: end, labelSketch: o.labelSketch, fieldSketch: o.fieldSketch}
	at.convertedAt(o)
	return at
}

// Showing returns the object with the given revision in its data: itself where the data has it already, or has no resourceVersion.
func (o *Object) Showing(revision int64) *Object {
	if o.revisionEnd <= o.revisionStart || string(o.Data[o.revisionStart:o.revisionEnd]) == FormatRevision(revision) {
		return o
	}
	return o.At(revision)
}

// Form returns an encoding of the object other than Data, which build makes on the first call; it is kept as long as the object. Two
// callers at once may both build; one result is kept. The bytes are shared and must not be changed.
func (o *Object) Form(id string, build func() ([]byte, error)) ([]byte, error) {
	return o.forms.get(id, build, nil, o)
}

// FormIfRoom is like Form, for callers that need an encoding of many objects: it keeps the encoding only while all encodings kept in this
// way, of all objects together, take less than FormsRoom.
func (o *Object) FormIfRoom(id string, build func() ([]byte, error)) ([]byte, error) {
	return o.forms.get(id, build, &keptForms, o)
}

// Kept returns an encoding if it was kept, else nil.
func (o *Object) Kept(id string) []byte {
	if f := o.forms.find(id); f != nil {
		return f.data
	}
	return nil
}

// objectOverhead is about what an object takes besides its data: itself, its sets of labels and fields, its place in a tree.
const objectOverhead = 512

// Size is about how many bytes of memory the object takes now, the encodings kept with it included.
func (o *Object) Size() int64 {
	n := objectOverhead + len(o.Data)
	if o.IsPacked() {
		n += len(o.packing.bytes)
	}
	for f := o.forms.head.Load(); f != nil; f = f.next {
		n += len(f.data)
	}
	return int64(n)
}

// Moved returns the same object with its bytes where place copies them, and with the sets that share returns, which are equal to its
// arguments. It keeps the forms for the cells, the stored bytes and the webhooks' conversions. The original object stays valid.
func (o *Object) Moved(place func([]byte) []byte, share func(map[string]string) map[string]string) *Object {
	moved := &Object{Key: o.Key, Revision: o.Revision, Data: place(o.Data), Labels: share(o.Labels), Fields: share(o.Fields),
		revisionStart: o.revisionStart, revisionEnd: o.revisionEnd, labelSketch: o.labelSketch, fieldSketch: o.fieldSketch}
	for f := o.forms.head.Load(); f != nil; f = f.next {
		if f.id == CellsForm || f.id == storedForm || isConverted(f.id) {
			moved.forms.head.Store(&form{id: f.id, data: place(f.data), next: moved.forms.head.Load()})
		}
	}
	return moved
}

// Event is one change, shared by all its watchers.
type Event struct {
	// Op is Create, Update or Delete.
	Op       Op
	Revision int64
	// Object is the state after the change; for a Delete the last state, under the revision of its deletion.
	Object *Object
	// Prev is the state before the change, with the revision it had; nil for a Create.
	Prev *Object

	prevAt atomic.Pointer[Object]
}

// PrevAt returns the state before the change under the revision of the change: for watchers whose selector the object no longer matches.
// It is made once for all watchers.
func (e *Event) PrevAt() *Object {
	if o := e.prevAt.Load(); o != nil {
		return o
	}
	e.prevAt.CompareAndSwap(nil, e.Prev.At(e.Revision))
	return e.prevAt.Load()
}
