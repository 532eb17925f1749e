package fieldmanager

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzKeepTimestamps compares KeepTimestamps with kube-apiserver's way for objects without a Go type, with any JSON as their managedFields.
func FuzzKeepTimestamps(f *testing.F) {
	f.Cleanup(fastpath.ManagedFields.Turn(true))
	const usual = `"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:a":{}}}`
	for _, pair := range [][2]string{
		{`"time":"2024-01-01T00:00:00Z"`, `"time":"2025-01-01T00:00:00Z"`}, {`"time":"2024-01-01T00:00:00Z"`, `"subresource":"status"`},
		{`"time":"2024-01-01T00:00:00Z"`, `"time":"2024-01-01T01:00:00+01:00"`}, {`"time":"2024-01-01T00:00:00Z"`, `"time":"2024-01-01T00:00:00.5Z"`},
		{`"time":"2024-01-01T00:00:00Z"`, `"time":"x"`}, {`"time":"x"`, `"time":"y"`}, {`"time":null`, `"time":"2024-01-01T00:00:00Z"`},
		{`"time":"0001-01-01T00:00:00Z"`, `"time":"2024-01-01T00:00:00Z"`}, {`"time":"2024-01-01T00:00:00Z","x":1`, `"time":"2025-01-01T00:00:00Z","x":1`},
		{`"time":"2024-01-01T00:00:00Z","manager":5`, `"time":"2025-01-01T00:00:00Z","manager":5`},
		{`"time":"2024-01-01T00:00:00Z","manager":""`, `"time":"2025-01-01T00:00:00Z","manager":""`},
		{`"time":"2024-01-01T00:00:00Z","fieldsV1":[1]`, `"time":"2025-01-01T00:00:00Z","fieldsV1":[1]`},
		{`"time":"2024-01-01T00:00:00Z","fieldsV1":null`, `"time":"2025-01-01T00:00:00Z","fieldsV1":null`},
		{`"time":"2024-01-01T00:00:00Z","fieldsV1":{"f:a":1.5}`, `"time":"2025-01-01T00:00:00Z","fieldsV1":{"f:a":1.5}`},
		{`"time":"2024-01-01T00:00:00Z","fieldsV1":{"f:a":1}`, `"time":"2025-01-01T00:00:00Z","fieldsV1":{"f:a":1.0}`},
	} {
		live, obj := "[{"+usual+","+pair[0]+"}]", "[{"+usual+","+pair[1]+"}]"
		f.Add(live, obj, false)
		f.Add(live, obj, true)
		f.Add(live, "["+obj[1:len(obj)-1]+","+obj[1:], false)
	}
	f.Add("null", "[]", false)
	f.Add("[null]", "[{}]", false)
	f.Add("{}", `[{"time":"2024-01-01T00:00:00Z"}]`, false)
	f.Fuzz(func(t *testing.T, live, obj string, changed bool) {
		make := func(entries string, changed bool) *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			spec := map[bool]string{true: `{"a":1}`, false: `{"a":2}`}[changed]
			if err := u.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"T","metadata":{"name":"c","managedFields":` + entries + `},"spec":` + spec + `}`)); err != nil {
				t.Skip()
			}
			return u
		}
		before, after := make(live, false), make(obj, changed)
		want := after.DeepCopy()
		if _, err := upstream.IgnoreManagedFieldsTimestampsTransformer(context.Background(), want, before.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		was := before.DeepCopy()
		KeepTimestamps(before, after)
		if diff := cmp.Diff(bytesOf(t, want), bytesOf(t, after)); diff != "" {
			t.Errorf("%s, then %s (-upstream +ours):\n%s", live, obj, diff)
		}
		if diff := cmp.Diff(was, before); diff != "" {
			t.Errorf("%s: the live object is changed:\n%s", live, diff)
		}
	})
}

// TestUnusualTimesAreCounted: managedFields that upstream reads and compares count, others do not.
func TestUnusualTimesAreCounted(t *testing.T) {
	t.Cleanup(fastpath.ManagedFields.Turn(true))
	object := func(manager any, at string) *unstructured.Unstructured {
		entry := map[string]any{"manager": manager, "operation": "Update", "time": at}
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": []any{entry}}}}
	}
	const earlier, later = "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"
	for _, c := range []struct {
		live, obj *unstructured.Unstructured
		counted   int64
	}{
		{object("a", earlier), object("a", later), 0}, {object("a", earlier), object("b", later), 0}, {object("a", earlier), object("a", earlier), 0},
		{object("a", earlier), object(int64(5), later), 1}, {object("a", "x"), object("a", later), 1},
	} {
		before := fastpath.ManagedFields.Fallbacks()
		KeepTimestamps(c.live, c.obj)
		if got := fastpath.ManagedFields.Fallbacks() - before; got != c.counted {
			t.Errorf("%v, then %v: counted %d times, want %d", c.live, c.obj, got, c.counted)
		}
	}
}

// bytesOf is an object as it is stored.
func bytesOf(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	data, err := json.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
