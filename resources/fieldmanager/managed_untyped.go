package fieldmanager

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources/untypedjson"
)

// setManaged sets the managedFields of an object. For objects without a Go type Unstructured would make the maps by reflection, by
// encoding and decoding, and by copies: half of the cost of the field management.
func setManaged(m metav1.Object, fields []metav1.ManagedFieldsEntry) {
	if u, ok := m.(*unstructured.Unstructured); ok && fields != nil && setUntyped(u, fields) {
		return
	}
	m.SetManagedFields(fields)
}

// setUntyped does the same as SetManagedFields of u. For an unusual entry or object it does nothing and returns false.
func setUntyped(u *unstructured.Unstructured, fields []metav1.ManagedFieldsEntry) (ok bool) {
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok {
		return false
	}
	list := make([]any, len(fields))
	for i := range fields {
		if list[i], ok = untypedEntry(&fields[i]); !ok {
			return false
		}
	}
	metadata["managedFields"] = list
	return true
}

func untypedEntry(e *metav1.ManagedFieldsEntry) (any, bool) {
	if e.FieldsV1 == nil {
		return nil, false
	}
	owned, ok := untypedjson.Decode(e.FieldsV1.GetRawBytes())
	if !ok {
		return nil, false
	}
	out := make(map[string]any, 7)
	for _, f := range [...]struct{ name, value string }{{"manager", e.Manager}, {"operation", string(e.Operation)}, {"apiVersion", e.APIVersion},
		{"fieldsType", e.FieldsType}, {"subresource", e.Subresource}} {
		if f.value != "" {
			out[f.name] = f.value
		}
	}
	if e.Time != nil {
		if e.Time.IsZero() {
			return nil, false // a zero time is written as null
		}
		out["time"] = e.Time.UTC().Format(time.RFC3339)
	}
	out["fieldsV1"] = owned
	return out, true
}
