package resources

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// An encoded object has the JSON of encoding/json, with a Go type and without, and the next encoding does not overwrite
// it.
func TestEncode(t *testing.T) {
	configMap := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"key": "<value>"}}
	other := configMap.DeepCopy()
	other.Kind, other.Name = "OtherKind", "b"
	objects := []runtime.Object{configMap, other,
		&unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "apiVersion": "a/v1", "spec": map[string]any{"a": "<>"}}},
		&corev1.ConfigMapList{Items: []corev1.ConfigMap{*configMap}}}
	got := make([][]byte, len(objects))
	for i, obj := range objects {
		var err error
		if got[i], err = (&Type{}).encode(obj); err != nil {
			t.Fatal(err)
		}
	}
	for i, obj := range objects {
		if want, err := json.Marshal(obj); err != nil || string(got[i]) != string(want) {
			t.Errorf("%s, want %s (%v)", got[i], want, err)
		}
	}
}
