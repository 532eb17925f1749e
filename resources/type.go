package resources

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Scheme makes, recognises, defaults and converts the objects of a type. *runtime.Scheme is one; a custom resource has its own.
type Scheme interface {
	runtime.ObjectCreater
	runtime.ObjectTyper
	runtime.ObjectDefaulter
	runtime.ObjectConvertor
}

// Type is one resource type and its rules. It is immutable once registered.
//
// Objects of a type have three forms: a served version (what clients send and get), the hub (upstream's internal
// version, which strategies work on; see Hub), and the stored bytes (JSON in StorageVersion).
type Type struct {
	// GroupResource is the identity of the type in the store. Its string form is Key.Resource.
	schema.GroupResource
	// Kind of the objects, the same in every version.
	Kind string
	// ListKind is the kind of lists where it is not Kind+"List".
	ListKind string
	// SingularName, ShortNames and Categories are what kubectl resolves ("pod", "po", "all").
	SingularName string
	ShortNames   []string
	Categories   []string
	Namespaced   bool

	// Form, where it is set, identifies the bytes of objects in the version that the type is served in: a type that replaces another one of the same
	// Form shows every object by the same bytes (but see Renewed), so that watches need not end. Empty: no other Type has the same bytes.
	Form string
	// Since is the revision since which the objects are shown by these bytes, as far as is known: by an earlier definition they may have had others.
	// Zero: always.
	Since int64

	// Untyped: objects have no Go type, as those of custom resources. Their bytes have another layout; see layout.go.
	Untyped bool
	// Scheme and Serializer handle the versions of the type.
	Scheme     Scheme
	Serializer runtime.NegotiatedSerializer
	// StorageVersion is the version that objects are stored in.
	StorageVersion schema.GroupVersion
	// StoredIn returns the version that an object in the hub form is stored in, for types some of whose objects have fields that StorageVersion
	// lacks. Nil: all are stored in StorageVersion.
	StoredIn func(hub runtime.Object) schema.GroupVersion
	// Prepare removes from the new object (hub form) of an update the values that the stored JSON cannot hold, so that they do not count as a
	// change. May be nil.
	Prepare func(obj runtime.Object)
	// Normalize changes an object, in its storage version, to the form that kube-apiserver reads back from its storage, which does not keep some
	// distinctions of JSON. May be nil. It is not called for types whose Scheme completes objects itself.
	Normalize func(versioned runtime.Object)
	// UpstreamStorageVersion is kube-apiserver's storage version, where that differs (for the sake of its own older releases). Discovery has a hash
	// of it, by which clients only see whether it has changed: an equal hash makes them leave stored objects alone, also when one server replaces
	// the other.
	UpstreamStorageVersion schema.GroupVersion
	// FieldAnnotation is an annotation of the versions for which the hub form has a field instead: metadata without the object, which kube-apiserver
	// takes from the hub form, lacks it. Empty: there is none.
	FieldAnnotation string

	// Hub is the version of the hub form, where that is not upstream's internal one: rules of custom resources work on the version of the request.
	Hub schema.GroupVersion
	// FieldTypes is the schema of the version for the ownership of fields; nil for built-in types.
	FieldTypes managedfields.TypeConverter

	// Requires is the object that the rules of the type were made from: no object is stored once it has changed. Nil: none.
	Requires *Requirement
	// Repeats remembers updates that changed nothing, for a type whose objects are large. May be nil.
	Repeats Repeats
	// Lean puts placeholders for large parts, which few rules read, into objects that are created or applied. May be nil.
	Lean Lean
	// Current reports whether the bytes of an object that is stored in the version of the type are the bytes that the type shows in that version.
	// Nil: always.
	Current func(o *Object) bool
	// Converted returns objects in the version that the type is served in, as JSON, where a conversion webhook is needed. It sends many objects in
	// one request, and keeps the results with the objects (ConvertedForm). Nil: no webhook is needed.
	//
	// Errors: those of ctx, and the error of the conversion, in words for clients.
	Converted func(ctx context.Context, objects []*Object) ([][]byte, error)
	// Conversion identifies results of the webhook. A type that replaces one of the same Form with another Conversion has the objects converted again,
	// usually to the same bytes, so watches go on.
	Conversion string
	// Renewed is the last generation of a definition for which the webhook gave other bytes of an object than before, as far as is known. Watches end
	// when it changes.
	Renewed int64

	// Equivalents are the versions in which admission may ask for objects, for a type with versions that are not served. Nil: they are the
	// versions of the catalog.
	Equivalents []Equivalent

	// Hidden: requests for the type are answered, and discovery and OpenAPI do not have it (a definition that is not established).
	Hidden bool
	// OpenAPI describes the objects of an untyped type in the version that it is served in. May be nil.
	OpenAPI *OpenAPI

	// New and NewList make an empty object and an empty list in the hub form.
	New     func() runtime.Object
	NewList func() runtime.Object

	// CreateStrategy, UpdateStrategy and DeleteStrategy are upstream's rules for the main resource.
	CreateStrategy rest.RESTCreateStrategy
	UpdateStrategy rest.RESTUpdateStrategy
	DeleteStrategy rest.RESTDeleteStrategy
	// ResetFields are the fields that writes to the main resource leave alone, per version. May be nil.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set
	// Attrs returns the labels and the selectable fields of an object in the hub form, metadata.name and
	// metadata.namespace among the fields.
	Attrs func(obj runtime.Object) (labels.Set, fields.Set, error)
	// FieldsOf returns the selectable fields of an object other than metadata.name and metadata.namespace, where they are not stored with the
	// object: they may change while objects stay, and differ between versions. data is the object as JSON in the version that the type is served in.
	// May be nil.
	FieldsOf func(data []byte) fields.Set
	// Table makes the columns of a Table, as kubectl prints them.
	Table rest.TableConvertor
	// TableTimeDependent is set where cells change with the clock, other than a column made of metadata.creationTimestamp alone and texts with
	// "… ago", which are recognised.
	TableTimeDependent bool
	// TableOrder compares two objects for the order of the rows of a list, where it is not the order of lists. May be nil.
	TableOrder func(a, b *Object) int
	// Indexed is the selectable field by which kube-apiserver's watch cache has an index. Clients see it in lists in chunks: for the first chunk of
	// those that are selected by a value of the field, only objects with that value count. Empty: there is no index.
	Indexed string
	// Uncached: kube-apiserver has no watch cache for the type, but reads it from etcd. Clients see the difference: a list at any version is in
	// chunks if the client asks for chunks, an invalid version is the client's error for a get, too, and a watch has no bookmarks but the one after its
	// initial events.
	Uncached bool
	// TTL returns how long an object lives (zero: until it is deleted). May be nil.
	TTL func(obj runtime.Object) time.Duration
	// ReturnDeletedObject: a delete answers with the object, not with a Status.
	ReturnDeletedObject bool
	// ReturnDeletedIn are the versions in which a delete answers with the object, where not all do.
	ReturnDeletedIn []string
	// ShouldDeleteDuringUpdate reports whether an update removes the object, besides the rule for finalizers. May be nil.
	ShouldDeleteDuringUpdate func(ctx context.Context, obj, existing runtime.Object) bool

	// DeprecationWarning is the warning in every answer for the version that the type is served in, where the Go type does not define one.
	DeprecationWarning string

	// BeforeCreate refuses a create regardless of the object, before admission. May be nil.
	BeforeCreate func(ctx context.Context, name string) error
	// Permit checks rights of the requester beyond those on the type, as for a role with rights that the requester does not have. It is called after
	// mutating admission, for the object itself. old is nil on a create, and empty where an update creates. May be nil.
	Permit func(ctx context.Context, obj, old runtime.Object) error
	// BeforeDelete refuses a delete regardless of the object, or warns by way of the context (k8s.io/apiserver/pkg/warning). For a collection, name
	// is empty and it is called once. May be nil.
	BeforeDelete func(ctx context.Context, name string, o *metav1.DeleteOptions) error
	// Terminate is the first phase of a deletion, for types that have their own: it marks obj (hub form) as being deleted since now, and returns
	// true when obj is to be stored like that and stays for the time being. When it returns false it changed nothing, and the common rules for
	// finalizers and grace periods decide. May be nil.
	Terminate func(obj runtime.Object, now metav1.Time) bool
	// TerminatesPlainly: Terminate ignores how dependents are to be deleted. As in kube-apiserver, where another component handles them, the error
	// of a failed precondition begins with a small letter.
	TerminatesPlainly bool
	// Allocate takes an object's share of a common supply, or gives it back: the addresses and ports of Services. It fills in obj (hub form) and
	// returns the writes to be committed with obj's own, so that nothing is taken before obj is stored, and nothing twice. old is nil on a create;
	// obj is nil on the removal of old. A create with more removals than a transaction should have commits them first. It comes before the
	// strategies, again for every attempt, and not for writes through a subresource, unless they remove the object. May be nil.
	Allocate func(ctx context.Context, s Reader, obj, old runtime.Object) ([]Write, error)

	// Subresources by name, without the type's own path: "status", "scale", "binding".
	Subresources map[string]*Subresource

	// Virtual is set for types that are not stored: this function answers a create, and nothing else is served. It calls Operation.Validate once it
	// has found the object valid, as kube-apiserver does.
	Virtual CreateFunc
	// Computed is set for types that are not stored either: get and list are answered from its result, and nothing else is served.
	Computed func(ctx context.Context, s Reader, q ComputedQuery) (ComputedPage, error)
	// ServedVerbs, when set, are the verbs of the main resource, in the order of discovery.
	ServedVerbs []string
	// OfferedVerbs, when set, are the verbs in discovery instead: more is served, but clients should not start using it.
	OfferedVerbs []string

	age struct {
		once   sync.Once
		column int
	}
	serial struct {
		once sync.Once
		n    int64
	}
}

// Requirement is an object that the rules of a type were made from: its definition.
type Requirement struct {
	Key      Key
	Revision int64
}

// Equivalent is a version of the objects of a type, served or not.
type Equivalent struct {
	schema.GroupVersionKind
	// Subresources are the kinds at the subresources of the version. Zero: its own kind.
	Subresources map[string]schema.GroupVersionKind
}

// kindAt returns the kind of the objects at the version itself, or at a subresource; false if there is none.
func (e *Equivalent) kindAt(subresource string) (schema.GroupVersionKind, bool) {
	if subresource == "" {
		return e.GroupVersionKind, true
	}
	kind, ok := e.Subresources[subresource]
	if ok && kind.Empty() {
		kind = e.GroupVersionKind
	}
	return kind, ok
}

// CreateFunc answers a create that is an operation rather than an object: a review, a binding, an eviction. obj is in the hub form of its kind and
// may be kept. name is the name of the parent, empty for a virtual type.
type CreateFunc func(ctx context.Context, o *Operation, name string, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error)

// CompleteFunc completes the object of an operation after mutating admission and before validating admission; see CreateFunc. The rest of the
// request uses the context that it returns, which may carry results for Create.
type CompleteFunc func(ctx context.Context, o *Operation, name string, obj runtime.Object, opts *metav1.CreateOptions) (context.Context, error)

// Subresource is a path below an object of a type.
type Subresource struct {
	Name string
	// Kind is the kind of the path's objects, in its one served version. Zero: the kind of the type, in the requested version.
	Kind schema.GroupVersionKind
	// OlderVersions of Kind are accepted in bodies as well.
	OlderVersions []schema.GroupVersion
	// Verbs are the verbs in discovery: get, update, patch, create …
	Verbs []string

	// UpdateStrategy has the rules for updates of the object through this path.
	UpdateStrategy rest.RESTUpdateStrategy
	// ResetFields are the fields that writes through this path leave alone, per version of the type. May be nil.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set

	// Written is called after a committed update through this path, with the object as it was and as it is. May be nil.
	Written func(before, now *Object)

	// Projection is set when Kind is another kind, made of the object's fields (scale).
	Projection Projection
	// Create answers a create at this path (binding, eviction). May be nil.
	Create CreateFunc
	// Complete comes before Create and validating admission. May be nil.
	Complete CompleteFunc
	// KeepMeta: the uid and the resourceVersion of an object that is created at this path are preconditions on the parent, and reach Create as the
	// client sent them. Otherwise the system fields of its metadata are wiped.
	KeepMeta bool
	// Connect makes the handler that proxies the requests at this path to another server, a kubelet or a pod. Its errors are statuses and those of
	// Reader. May be nil.
	Connect func(s Reader) rest.Connecter
	// Stream makes the reader of a text at this path (log): its Get returns a rest.ResourceStreamer. May be nil.
	Stream func(s Reader) rest.GetterWithOptions
	// AppliedNew: server-side apply at the path creates a missing object, as it does at the type's own path.
	AppliedNew bool
	// NoTable: the path has no Table, although it has the object.
	NoTable bool
	// Table makes the columns of a Projection, where they differ from the type's. May be nil.
	Table rest.TableConvertor
}

// written calls Written. s is nil for the object itself; before is nil for a new object.
func (s *Subresource) written(before, now *Object) {
	if s != nil && s.Written != nil && before != nil {
		s.Written(before, now)
	}
}

// Projection maps an object to another kind and back, as scale does. All objects are in the hub form of their kind.
type Projection interface {
	// New makes an empty object of the projected kind.
	New() runtime.Object
	// FromParent makes the projected object of a parent, which it does not change.
	FromParent(parent runtime.Object) (runtime.Object, error)
	// ToParent writes the fields of the projection into parent.
	ToParent(projected, parent runtime.Object) error
	// ReplicasPaths says where the field spec.replicas of the projection is in each version of the parent, for field ownership.
	ReplicasPaths() managedfields.ResourcePathMappings
}

// Changeable is a Projection for parents that it cannot show in their present state, but can once they are changed through it.
type Changeable interface {
	Projection
	// ToChange makes the projected object that an update of parent starts from.
	ToChange(parent runtime.Object) (runtime.Object, error)
	// ForAdmission makes the projected object that admission sees, before and after an update of parent.
	ForAdmission(parent runtime.Object) (runtime.Object, error)
	// Changed makes the projected object that answers an update of parent.
	Changed(parent runtime.Object) (runtime.Object, error)
}

// HasVerb reports whether the path is served with a verb.
func (s *Subresource) HasVerb(verb string) bool {
	for _, v := range s.Verbs {
		if v == verb {
			return true
		}
	}
	return false
}

// ResourceName is the identity of the type in the store, as used in Key.Resource.
func (t *Type) ResourceName() string { return t.GroupResource.String() }

// Stored reports whether the store has the objects of the type.
func (t *Type) Stored() bool { return t.Virtual == nil && t.Computed == nil }

// KeyOf returns the key of an object of this type.
func (t *Type) KeyOf(namespace, name string) Key {
	return Key{Resource: t.ResourceName(), Namespace: namespace, Name: name}
}

// KindOfLists is the kind of lists of the type.
func (t *Type) KindOfLists() string {
	if t.ListKind != "" {
		return t.ListKind
	}
	return t.Kind + "List"
}

// HubOf returns the version of the hub form for a kind of a group: the type's own or, for subresources, another.
func (t *Type) HubOf(group string) schema.GroupVersion {
	if !t.Hub.Empty() && group == t.Group {
		return t.Hub
	}
	return schema.GroupVersion{Group: group, Version: runtime.APIVersionInternal}
}

// StorageKind is the kind of stored objects.
func (t *Type) StorageKind() schema.GroupVersionKind { return t.StorageVersion.WithKind(t.Kind) }

// HashedKind is the kind of stored objects whose hash discovery has.
func (t *Type) HashedKind() schema.GroupVersionKind {
	if !t.UpstreamStorageVersion.Empty() {
		return t.UpstreamStorageVersion.WithKind(t.Kind)
	}
	return t.StorageKind()
}

// Verbs are the verbs of the main resource, in the order of discovery.
func (t *Type) Verbs() []string {
	switch {
	case t.ServedVerbs != nil:
		return t.ServedVerbs
	case t.Virtual != nil:
		return []string{"create"}
	case t.Computed != nil:
		return []string{"get", "list"}
	}
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}
