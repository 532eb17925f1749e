package resources

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// ServerManagerName is the field manager of what the server writes of itself, by the name that kube-apiserver has there.
const ServerManagerName = "kube-apiserver"

// ServerManager returns a field manager for what the server itself writes of this type, in the version that is stored:
// to the objects, or with a name to that subresource.
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
		c.Types = nil // a Scale is none of the type's own
	}
	return fieldmanager.New(c)
}

// typeConverterKey is under what the converter of a served type is kept with it.
type typeConverterKey struct{}

// TypeConverter returns what knows the schema of the type in its version, as field management does.
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
