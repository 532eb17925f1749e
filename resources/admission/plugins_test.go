package admission

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// All of kube-apiserver's plugins are there. One that is new, or that kube-apiserver no longer has, is not left out in silence.
func TestPluginsAreListed(t *testing.T) {
	known := slices.Sorted(maps.Keys(registrations(Config{}, nil)))
	if diff := cmp.Diff(slices.Sorted(slices.Values(Names())), known); diff != "" {
		t.Errorf("plugins (-kube-apiserver's +ours): %s", diff)
	}
}
