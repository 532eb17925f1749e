package controlplane

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources"
)

// conditionPatch is what to apply to the status of an object, so that it has a condition, which changed just now.
func conditionPatch(t *resources.Type, name string, condition map[string]any) *unstructured.Unstructured {
	condition["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": t.StorageVersion.String(), "kind": t.Kind, "metadata": map[string]any{"name": name},
		"status": map[string]any{"conditions": []any{condition}},
	}}
}
