package resources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzOwnersAreValid: rules find the same in an object with or without its managedFields, whatever these are, and do not change them. Those that
// may be wrong are left to upstream, and count.
func FuzzOwnersAreValid(f *testing.F) {
	f.Cleanup(fastpath.ManagedFields.Turn(true))
	const usual = `"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","time":"2024-01-01T00:00:00Z","fieldsV1":{"f:spec":{}}`
	for _, more := range []string{
		`"subresource":"status"`, `"operation":"Apply"`, `"operation":""`, `"operation":"apply"`, `"operation":null`, `"operation":1`, `"fieldsType":""`,
		`"fieldsType":"FieldsV2"`, `"fieldsType":null`, `"manager":""`, `"manager":null`, `"manager":1`, `"manager":"a\tb"`, `"manager":"é\u00a0"`, `"manager":"\ufffd"`,
		`"manager":"` + strings.Repeat("m", 128) + `"`, `"manager":"` + strings.Repeat("m", 129) + `"`, `"manager":"` + strings.Repeat("é", 65) + `"`,
		`"subresource":"` + strings.Repeat("s", 256) + `"`, `"subresource":"` + strings.Repeat("s", 257) + `"`, `"subresource":null`, `"subresource":[]`,
		`"time":"x"`, `"time":null`, `"time":1`, `"fieldsV1":null`, `"fieldsV1":"x"`, `"apiVersion":1`, `"x":1`, `"Manager":"\t"`,
	} {
		f.Add("[{"+usual+"},{"+usual+","+more+"}]", "[{"+usual+"}]")
	}
	for _, odd := range []string{"[]", "null", "{}", "[null]", "[[]]", "[{}]", `"x"`} {
		f.Add(odd, "[{"+usual+"}]")
		f.Add("[{"+usual+"}]", odd)
	}
	f.Fuzz(func(t *testing.T, now, before string) {
		make := func(owners string) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"T","metadata":{"name":"c","resourceVersion":"1","managedFields":` + owners + `}}`)); err != nil {
				t.Skip()
			}
			return u
		}
		obj, old := make(now), make(before)
		was, wasOld := obj.DeepCopy(), old.DeepCopy()
		find := func(on bool) (found string, removed int) {
			defer fastpath.ManagedFields.Turn(on)()
			_ = withoutOwners(func(func()) error {
				for _, u := range []*unstructured.Unstructured{obj, old} {
					if _, there := u.Object["metadata"].(map[string]any)["managedFields"]; !there {
						removed++
					}
				}
				m, err := meta.Accessor(obj)
				if err != nil {
					t.Fatal(err)
				}
				// Upstream's rules of a create and of an update validate managedFields so.
				found = fmt.Sprint(metav1validation.ValidateManagedFields(m.GetManagedFields(), field.NewPath("metadata", "managedFields")))
				return nil
			}, obj, old)
			return found, removed
		}
		want, _ := find(false)
		left := fastpath.ManagedFields.Fallbacks()
		got, removed := find(true)
		if got != want {
			t.Errorf("%s: got %q, want %q", now, got, want)
		}
		if n := fastpath.ManagedFields.Fallbacks() - left; int(n)+removed != 2 {
			t.Errorf("%s and %s: %d are removed, %d fallbacks", now, before, removed, n)
		}
		if diff := cmp.Diff([]any{was, wasOld}, []any{obj, old}); diff != "" {
			t.Errorf("%s and %s are changed:\n%s", now, before, diff)
		}
	})
}
