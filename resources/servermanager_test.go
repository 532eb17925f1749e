package resources

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestMetadataManagerNeedsNoWebhook returns no manager for an object whose managedFields are in several versions, between which a webhook converts.
func TestMetadataManagerNeedsNoWebhook(t *testing.T) {
	v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"}, schema.GroupVersion{Group: "example.com", Version: "v2"}
	for _, tt := range []struct {
		webhook bool
		entries []schema.GroupVersion
		managed bool
	}{{true, nil, true}, {true, []schema.GroupVersion{v1}, true}, {true, []schema.GroupVersion{v1, v2}, false}, {false, []schema.GroupVersion{v1, v2}, true}} {
		typ := &Type{GroupResource: v1.WithResource("toys").GroupResource(), Kind: "Toy", Untyped: true, Hub: v2, StorageVersion: v2, Scheme: runtime.NewScheme()}
		if tt.webhook {
			typ.Converted = func(context.Context, []*Object) ([][]byte, error) { return nil, nil }
		}
		existing := &unstructured.Unstructured{}
		existing.SetGroupVersionKind(v1.WithKind("Toy"))
		var entries []metav1.ManagedFieldsEntry
		for _, gv := range tt.entries {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: "m", APIVersion: gv.String()})
		}
		existing.SetManagedFields(entries)
		served := newServed(typ, v2, []schema.GroupVersion{v2, v1}, nil)
		m, err := served.MetadataManager(existing)
		if err != nil || (m != nil) != tt.managed {
			t.Errorf("webhook %v, entries in %v: a manager is %v (%v)", tt.webhook, tt.entries, m != nil, err)
		}
	}
}
