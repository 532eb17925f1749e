package resources

import (
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
