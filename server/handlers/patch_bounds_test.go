package handlers

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func repeat(element string, n int) string {
	return strings.TrimSuffix(strings.Repeat(element+",", n), ",")
}

// Patches that would take minutes are rejected, and large ones that would not are accepted.
func TestAffordablePatches(t *testing.T) {
	nested := func(n int, filling string) string {
		return strings.Repeat(`{"a":`, n) + `"` + filling + `"` + strings.Repeat("}", n)
	}
	for _, c := range []struct {
		name       string
		typ        types.PatchType
		patch, old string
		affordable bool
	}{
		{"nested", types.MergePatchType, nested(9000, ""), `{}`, false},
		{"nested around something large", types.MergePatchType, nested(300, strings.Repeat("{", 2<<20)), `{}`, false},
		{"nested as resources are", types.MergePatchType, nested(30, strings.Repeat(`\"`, 1<<20)), `{}`, true},
		{"nested in a large object", types.MergePatchType, nested(3000, ""), nested(3000, strings.Repeat("a", 1<<20)), false},
		{"nested in lists of a large object", types.MergePatchType, `{"a":[` + nested(300, "{[") + `]}`, nested(3000, strings.Repeat("a", 1<<20)), true},
		{"as nested as resources are in a large object", types.MergePatchType, nested(300, "{"), nested(3000, strings.Repeat("a", 3<<20)), true},
		{"wide", types.MergePatchType, `{"data":{` + repeat(`"a":"b"`, 300000) + `}}`, `{}`, true},
		{"braces in strings", types.MergePatchType, `{"data":{"a":"` + strings.Repeat(`{\"`, 500000) + `"}}`, `{}`, true},
		{"a long pointer", types.JSONPatchType, `[{"op":"add","path":"` + strings.Repeat("/a", 9000) + `","value":1}]`, nested(9000, ""), false},
		{"a long pointer to nothing", types.JSONPatchType, `[{"op":"add","path":"` + strings.Repeat("/a", 9000) + `","value":1}]`, nested(10, strings.Repeat("a", 1<<20)), true},
		{"nested with directives", types.StrategicMergePatchType, nested(9000, ""), nested(9000, ""), false},
		{"wide with directives", types.StrategicMergePatchType, `{"args":[` + repeat(`"x"`, 100000) + `]}`, `{"args":[` + repeat(`"x"`, 100000) + `]}`, true},
	} {
		if err := affordable(c.typ, []byte(c.patch), []byte(c.old)); (err == nil) != c.affordable {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
