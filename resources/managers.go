package resources

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/warning"
)

// managers are the managedFields of an object at a moment. A change of them replaces the slice.
type managers struct {
	obj metav1.Object // nil: a kind without metadata
	// typed has those of a Go type, untyped those of an object without one.
	typed   []metav1.ManagedFieldsEntry
	untyped []any
}

func managersOf(obj runtime.Object) managers {
	if obj == nil {
		return managers{}
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return managers{}
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		metadata, _ := u.Object["metadata"].(map[string]any)
		entries, _ := metadata["managedFields"].([]any)
		return managers{obj: m, untyped: entries}
	}
	return managers{obj: m, typed: m.GetManagedFields()}
}

// is reports whether the managedFields were not replaced.
func (m managers) is(other managers) bool {
	return sameSlice(m.typed, other.typed) && sameSlice(m.untyped, other.untyped)
}

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// keepValid restores the managedFields from before if the present ones cannot be read, as kube-apiserver does.
func (m managers) keepValid(ctx context.Context, before managers) {
	if m.obj == nil {
		return
	}
	err := managedfields.ValidateManagedFields(m.obj.GetManagedFields())
	if err == nil {
		return
	}
	if u, ok := m.obj.(*unstructured.Unstructured); ok {
		if metadata, ok := u.Object["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
			if len(before.untyped) > 0 {
				metadata["managedFields"] = before.untyped
			}
		}
	} else {
		m.obj.SetManagedFields(before.typed)
	}
	warning.AddWarning(ctx, "", fmt.Sprintf(invalidManagers, err))
}

// invalidManagers is kube-apiserver's text.
const invalidManagers = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: %v"
