package fieldmanager

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	core "k8s.io/kubernetes/pkg/apis/core"
)

// TestKeepTimestamps compares KeepTimestamps with kube-apiserver's way to make writes without effect no-ops.
func TestKeepTimestamps(t *testing.T) {
	at := func(s int64) *metav1.Time { return &metav1.Time{Time: time.Unix(s, 0)} }
	entry := func(manager, fields string, when *metav1.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Time: when}
	}
	type fields = []metav1.ManagedFieldsEntry
	for name, c := range map[string]struct {
		live, obj fields
		change    bool
		keeps     bool
	}{
		"nothing changed":   {fields{entry("a", "{}", at(1))}, fields{entry("a", "{}", at(2))}, false, true},
		"one of two times":  {fields{entry("a", "{}", at(1)), entry("b", "{}", nil)}, fields{entry("a", "{}", at(1)), entry("b", "{}", at(3))}, false, true},
		"same times":        {fields{entry("a", "{}", at(1))}, fields{entry("a", "{}", at(1))}, false, true},
		"the object":        {fields{entry("a", "{}", at(1))}, fields{entry("a", "{}", at(2))}, true, false},
		"the fields":        {fields{entry("a", "{}", at(1))}, fields{entry("a", `{"f:data":{}}`, at(2))}, false, false},
		"the manager":       {fields{entry("a", "{}", at(1))}, fields{entry("b", "{}", at(2))}, false, false},
		"another entry":     {fields{entry("a", "{}", at(1))}, fields{entry("a", "{}", at(2)), entry("b", "{}", at(2))}, false, false},
		"no managed fields": {nil, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			value := map[bool]string{true: "2", false: "1"}[c.change]
			typed := func(f fields, value string) runtime.Object {
				return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", ManagedFields: f}, Data: map[string]string{"k": value}}
			}
			untyped := func(f fields, value string) runtime.Object {
				u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": value}}}
				u.SetName("c")
				u.SetManagedFields(f)
				return u
			}
			for _, make := range []func(fields, string) runtime.Object{typed, untyped} {
				live, obj := make(c.live, "1"), make(c.obj, value)
				want, err := upstream.IgnoreManagedFieldsTimestampsTransformer(context.Background(), obj.DeepCopyObject(), live.DeepCopyObject())
				if err != nil {
					t.Fatal(err)
				}
				KeepTimestamps(live, obj)
				if diff := cmp.Diff(want, obj); diff != "" {
					t.Errorf("%T differs (-upstream +ours):\n%s", obj, diff)
				}
				if same := cmp.Equal(obj, live); same != c.keeps {
					t.Errorf("%T is as live: %v, want %v", obj, same, c.keeps)
				}
			}
		})
	}
}
