package resources_test

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// Who lists the objects of a namespace is told of those alone.
func TestUnreadableWithinANamespace(t *testing.T) {
	unread := func(namespace, name string) *resources.TransformError {
		return &resources.TransformError{Key: resources.Key{Resource: "secrets", Namespace: namespace, Name: name}, Err: errors.New(name)}
	}
	all := unread("a", "1")
	all.Among, all.Others = true, []*resources.TransformError{unread("b", "2"), unread("b", "3"), unread("c", "4")}
	for namespace, want := range map[string][]string{"": {"a/1", "b/2", "b/3", "c/4"}, "a": {"a/1"}, "b": {"b/2", "b/3"}, "d": {"d/"}} {
		within := all.Within(namespace)
		var got []string
		for _, e := range append([]*resources.TransformError{within}, within.Others...) {
			got = append(got, e.Key.Namespace+"/"+e.Key.Name)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %q", namespace, got)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %q", namespace, got)
			}
		}
	}
	if len(all.Others) != 3 {
		t.Error("the error itself was changed")
	}
}
