package openapi

import (
	"maps"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// The kinds are computed once for catalogs with the same Go types, again for others, and dropped when the server is idle.
func TestKindsAreKept(t *testing.T) {
	registry := resources.NewRegistry()
	toy := namedType(t, "example.org", "v1", "Toy", "toys", 0)
	registry.Edit(func(e *resources.Edit) { e.SetType(toy.StorageVersion, 1000, 100, toy) })
	h := New(registry, false)
	none := h.kindsOf(registry.Catalog())
	if len(none.byModel) > 0 {
		t.Errorf("without Go types there are kinds of %d", len(none.byModel))
	}
	registry.SetGroups(builtin.Groups())
	first := h.kindsOf(registry.Catalog())
	const pod = "io.k8s.api.core.v1.Pod"
	if kinds := first.byModel[pod]; len(kinds) == 0 || kinds[0].Kind != "Pod" || first.digest() == none.digest() {
		t.Errorf("%s is known as %v", pod, kinds)
	}
	other := namedType(t, "second.example.org", "v1", "Toy", "toys", 0)
	registry.Edit(func(e *resources.Edit) { e.SetType(other.StorageVersion, 1000, 100, other) })
	if h.kindsOf(registry.Catalog()) != first {
		t.Error("kinds are found out anew for a type without a Go type")
	}
	h.Rest()
	again := h.kindsOf(registry.Catalog())
	if again == first || again.digest() != first.digest() || len(again.byModel) != len(first.byModel) || !maps.Equal(again.schemes, first.schemes) {
		t.Error("at rest kinds are kept, or they are others afterwards")
	}
}
