package resources

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

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
