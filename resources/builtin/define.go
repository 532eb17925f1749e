package builtin

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// strategy is upstream's strategy of a resource: one value with the rules of every write.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
	rest.RESTDeleteStrategy
}

// object is a pointer to the hub form of a kind.
type object[T any] interface {
	*T
	runtime.Object
}

// option sets a special property of a type.
type option func(*resources.Type)

// define declares a stored type: T and L are the hub form of its objects and lists, gv is its storage version.
//
// It is compiled once per type, so the code that does not depend on T and L is in declare.
func define[T, L any, PT object[T], PL object[L]](gv schema.GroupVersion, resource string, s strategy, opts ...option) *resources.Type {
	return declare(gv, resource, maker[T, PT], maker[L, PL], s, opts)
}

// maker returns a new object.
func maker[T any, PT object[T]]() runtime.Object { return PT(new(T)) }

// declare is define without type parameters.
func declare(gv schema.GroupVersion, resource string, newObject, newList func() runtime.Object, s strategy, opts []option) *resources.Type {
	t := newType(gv, resource, s.NamespaceScoped(), newObject)
	t.NewList = newList
	t.CreateStrategy, t.UpdateStrategy, t.DeleteStrategy = s, s, s
	if r, ok := s.(rest.ResetFieldsStrategy); ok {
		t.ResetFields = r.GetResetFields()
	}
	if v, other := upstream.StorageVersions[t.GroupResource]; other && v != gv.Version {
		t.UpstreamStorageVersion = schema.GroupVersion{Group: gv.Group, Version: v}
	}
	t.Attrs = metaAttrs(t.Namespaced)
	t.Table = tables
	for _, o := range opts {
		o(t)
	}
	return t
}

// virtual declares a type whose creates are answered, and not stored.
func virtual[T any, PT object[T]](gv schema.GroupVersion, resource string, namespaced bool, create resources.CreateFunc) *resources.Type {
	t := newType(gv, resource, namespaced, maker[T, PT])
	t.Table = rest.NewDefaultTableConvertor(t.GroupResource)
	t.Virtual = create
	return t
}

func newType(gv schema.GroupVersion, resource string, namespaced bool, newObject func() runtime.Object) *resources.Type {
	kind := reflect.TypeOf(newObject()).Elem().Name()
	return &resources.Type{
		GroupResource:  gv.WithResource(resource).GroupResource(),
		Kind:           kind,
		SingularName:   strings.ToLower(kind),
		Namespaced:     namespaced,
		Scheme:         Scheme,
		Serializer:     Codecs,
		StorageVersion: gv,
		New:            newObject,
		Subresources:   map[string]*resources.Subresource{},
	}
}

// tables prints every kind that has its own columns. One generator serves all: it is a map from kind to printer.
var tables = printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers)}

// metaAttrs selects by labels, name and namespace, the default for types.
func metaAttrs(namespaced bool) func(runtime.Object) (labels.Set, fields.Set, error) {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, fmt.Errorf("attributes of %T: %w", obj, err)
		}
		f := fields.Set{"metadata.name": m.GetName()}
		if namespaced {
			f["metadata.namespace"] = m.GetNamespace()
		}
		return m.GetLabels(), f, nil
	}
}

// short sets the type's short names.
func short(names ...string) option {
	return func(t *resources.Type) { t.ShortNames = names }
}

// in puts the type into a category, a name for many types: "all".
func in(category string) option {
	return func(t *resources.Type) { t.Categories = []string{category} }
}

// selectBy replaces the selectable fields.
func selectBy(attrs func(runtime.Object) (labels.Set, fields.Set, error)) option {
	return func(t *resources.Type) { t.Attrs = attrs }
}

// storedIn stores some objects in another version than the rest.
func storedIn(version func(hub runtime.Object) schema.GroupVersion) option {
	return func(t *resources.Type) { t.StoredIn = version }
}

// table replaces the columns.
func table(c func(schema.GroupResource) rest.TableConvertor) option {
	return func(t *resources.Type) { t.Table = c(t.GroupResource) }
}

// clockColumns marks a type with columns that show the time since something other than its creation.
func clockColumns(t *resources.Type) { t.TableTimeDependent = true }

// tableOrder sets the order of the rows of a Table, where it is not the order of lists.
func tableOrder(compare func(a, b *resources.Object) int) option {
	return func(t *resources.Type) { t.TableOrder = compare }
}

// returnsDeleted marks a type whose deletes answer with the object.
func returnsDeleted(t *resources.Type) { t.ReturnDeletedObject = true }

// returnsDeletedIn marks a type whose deletes answer with the object in some versions alone.
func returnsDeletedIn(versions ...string) option {
	return func(t *resources.Type) { t.ReturnDeletedIn = versions }
}

// status adds the subresource of that name.
func status(s rest.UpdateResetFieldsStrategy) option {
	return part("status", s, "get", "patch", "update")
}

// statusAppliedNew is status for types where, upstream, an apply to the status creates a missing object.
func statusAppliedNew(s rest.UpdateResetFieldsStrategy) option {
	return func(t *resources.Type) {
		status(s)(t)
		t.Subresources["status"].AppliedNew = true
	}
}

// writtenStatus registers a callback for writes of the status.
func writtenStatus(tell func(before, now *resources.Object)) option {
	return func(t *resources.Type) { t.Subresources["status"].Written = tell }
}

// statusWithoutTable is status for types for which upstream's storage of the status makes no Table.
func statusWithoutTable(s rest.UpdateResetFieldsStrategy) option {
	return func(t *resources.Type) {
		status(s)(t)
		t.Subresources["status"].NoTable = true
	}
}

// part adds a subresource through which some fields of the object are read and written.
func part(name string, s rest.RESTUpdateStrategy, verbs ...string) option {
	sub := &resources.Subresource{Name: name, Verbs: verbs, UpdateStrategy: s}
	if r, ok := s.(rest.ResetFieldsStrategy); ok {
		sub.ResetFields = r.GetResetFields()
	}
	return with(sub)
}

// with adds a subresource.
func with(sub *resources.Subresource) option {
	return func(t *resources.Type) { t.Subresources[sub.Name] = sub }
}

// single is a group with one version.
func single(gv schema.GroupVersion, types ...*resources.Type) resources.GroupSpec {
	return resources.GroupSpec{Name: gv.Group, Priority: upstream.Priorities[gv].Group, Versions: []resources.VersionSpec{version(gv, types...)}}
}

// version is a version of a group.
func version(gv schema.GroupVersion, types ...*resources.Type) resources.VersionSpec {
	return resources.VersionSpec{Version: gv.Version, Priority: upstream.Priorities[gv].Version, Types: types}
}
