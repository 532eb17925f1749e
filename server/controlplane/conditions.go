package controlplane

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources"
)

// conditionPatch returns an apply patch for the status of an object. It sets one condition, with the current time as its last transition.
func conditionPatch(t *resources.Type, name string, condition map[string]any) *unstructured.Unstructured {
	condition["lastTransitionTime"] = time.Now().UTC().Format(time.RFC3339)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": t.StorageVersion.String(), "kind": t.Kind, "metadata": map[string]any{"name": name},
		"status": map[string]any{"conditions": []any{condition}},
	}}
}
