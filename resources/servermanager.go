package resources

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// ServerManagerName is the field manager of the server's own writes; kube-apiserver uses the same name.
const ServerManagerName = "kube-apiserver"

// ServerManager returns a field manager for the server's own writes of this type, in the storage version: to the
// objects, or to the named subresource.
func (t *Type) ServerManager(subresource string) (*fieldmanager.Manager, error) {
	return t.ServerManagerOf(t.StorageKind(), subresource)
}

// ServerManagerOf is ServerManager for writes in another version of the kind.
func (t *Type) ServerManagerOf(kind schema.GroupVersionKind, subresource string) (*fieldmanager.Manager, error) {
	c := fieldmanager.Config{Scheme: t.Scheme, Kind: kind, Subresource: subresource, ResetFields: t.ResetFields,
		Hub: t.HubOf(kind.Group), Types: t.FieldTypes}
	if sub := t.Subresources[subresource]; sub != nil {
		c.ResetFields = sub.ResetFields
	}
	if kind.Group != t.Group {
		c.Types = nil // the type has no schema of Scale
	}
	return fieldmanager.New(c)
}

// metadataManagerKey is the key of Served.Memo for MetadataManager.
type metadataManagerKey schema.GroupVersionKind

// MetadataManager returns a field manager for writes of metadata alone (UpdateRequest.Metadata) to an object, which is in the form that Change is
// given. Nil: a webhook might have to convert the object, and its managedFields have to stay as they are.
func (s *Served) MetadataManager(existing runtime.Object) (*fieldmanager.Manager, error) {
	c := fieldmanager.Config{Scheme: s.Scheme, Kind: s.GroupVersionKind, Hub: s.HubOf(s.GroupVersionKind.Group), Types: s.FieldTypes,
		Versions: s.Versions, ResetFields: s.ResetFields}
	if s.Untyped {
		c.Kind = existing.GetObjectKind().GroupVersionKind()
		c.Hub = c.Kind.GroupVersion()
	}
	if s.Converted != nil {
		m, err := meta.Accessor(existing)
		if err != nil || slices.ContainsFunc(m.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.APIVersion != c.Hub.String() }) {
			return nil, err
		}
	}
	m, err := s.Memo(metadataManagerKey(c.Kind), func() (any, error) { return fieldmanager.New(c) })
	if err != nil {
		return nil, err
	}
	return m.(*fieldmanager.Manager), nil
}

// typeConverterKey is the key of Served.Memo for the type converter.
type typeConverterKey struct{}

// TypeConverter returns the converter with the schema of the type in its version, for field management.
func (s *Served) TypeConverter() (managedfields.TypeConverter, error) {
	if s.FieldTypes != nil {
		return s.FieldTypes, nil
	}
	made, err := s.Memo(typeConverterKey{}, func() (any, error) {
		return fieldmanager.Config{Scheme: s.Scheme, Kind: s.GroupVersionKind, Hub: s.HubOf(s.GroupVersionKind.Group)}.TypeConverter(), nil
	})
	if err != nil {
		return nil, err
	}
	return made.(managedfields.TypeConverter), nil
}
