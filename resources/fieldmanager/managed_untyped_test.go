package fieldmanager

import (
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// The managedFields of an object without a Go type are set as Unstructured sets them.
func TestSetManagedAgreesWithUpstream(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 23, 21, 0, 0, 5, time.FixedZone("", 3600)))
	fields := func(text string) *metav1.FieldsV1 {
		f := &metav1.FieldsV1{}
		f.SetRawBytes([]byte(text))
		return f
	}
	full := metav1.ManagedFieldsEntry{Manager: "m", Operation: "Update", APIVersion: "example.com/v1", Time: &at, FieldsType: "FieldsV1",
		FieldsV1: fields(`{"f:metadata":{"f:labels":{".":{},"f:a\"b":{}}},"f:spec":{"k:{\"port\":80}":{},"v:1":{}}}`), Subresource: "status"}
	for name, all := range map[string][]metav1.ManagedFieldsEntry{
		"nil": nil, "none": {}, "several": {full, {Operation: "Apply", FieldsV1: fields(`{}`)}}, "empty": {{}}, "no text": {{FieldsV1: &metav1.FieldsV1{}}},
		"zero time": {{Manager: "m", Time: &metav1.Time{}, FieldsV1: fields(`{}`)}}, "twice": {{FieldsV1: fields(`{"f:a":{},"f:a":{}}`)}},
		"no object": {{FieldsV1: fields(`[]`)}}, "no UTF-8": {{Manager: "m", FieldsV1: fields("{\"f:\xff\":{}}")}},
	} {
		for what, object := range map[string]map[string]any{"nothing": nil, "no metadata": {"spec": "a"}, "other metadata": {"metadata": "a"},
			"some": {"metadata": map[string]any{"name": "a", "managedFields": []any{"b"}}}} {
			got, want := &unstructured.Unstructured{Object: object}, &unstructured.Unstructured{Object: object}
			got, want = got.DeepCopy(), want.DeepCopy()
			setManaged(got, all)
			want.SetManagedFields(all)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %s: %v, want %v", name, what, got, want)
			}
		}
	}
	defer fastpath.JSONDecode.Turn(true)()
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	if !setUntyped(u, []metav1.ManagedFieldsEntry{full}) {
		t.Error("an ordinary entry is left to upstream")
	}
}
