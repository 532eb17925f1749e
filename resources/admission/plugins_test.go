package admission

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPluginsAreListed checks that the list has all of kube-apiserver's plugins. A plugin that is new, or that was removed,
// does not go unnoticed.
func TestPluginsAreListed(t *testing.T) {
	known := slices.Sorted(maps.Keys(registrations(Config{}, nil)))
	if diff := cmp.Diff(slices.Sorted(slices.Values(Names())), known); diff != "" {
		t.Errorf("plugins (-kube-apiserver's +ours): %s", diff)
	}
}
