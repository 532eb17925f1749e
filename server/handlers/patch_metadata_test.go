package handlers

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestOfMetadata(t *testing.T) {
	for _, c := range []struct {
		typ  types.PatchType
		body string
		want bool
	}{
		{types.MergePatchType, `{"metadata":{"finalizers":null}}`, true},
		{types.MergePatchType, `{"metadata":{},"spec":{}}`, false},
		{types.MergePatchType, `[]`, false},
		{types.JSONPatchType, `[{"op":"remove","path":"/metadata/finalizers"},{"op":"move","from":"/metadata/a","path":"/metadata/b"}]`, true},
		{types.JSONPatchType, `[{"op":"remove","path":"/metadata"}]`, false},
		{types.JSONPatchType, `[{"op":"move","from":"/spec","path":"/metadata/b"}]`, false},
		{types.JSONPatchType, `[{"op":"replace","path":"/metadata/labels/a","path":"/spec/n","value":1}]`, false},
		{types.JSONPatchType, `[{"op":"remove"}]`, false},
		{types.JSONPatchType, `{}`, false},
	} {
		if got := ofMetadata([]byte(c.body), c.typ); got != c.want {
			t.Errorf("%s: %t", c.body, got)
		}
	}
}
