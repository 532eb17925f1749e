package upstream

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestGroupsAreInstalled: the scheme has the groups of kube-apiserver's own scheme, and those of the two servers behind
// it.
func TestGroupsAreInstalled(t *testing.T) {
	installed := func(file string) (out []string) {
		for _, i := range upstreamtest.ParseFile(t, file).Imports {
			if p := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(p, "k8s.io/kubernetes/pkg/apis/") {
				out = append(out, p)
			}
		}
		slices.Sort(out)
		return out
	}
	want := installed(filepath.Join(upstreamtest.PackageDir(t, "k8s.io/kubernetes/pkg/controlplane"), "import_known_versions.go"))
	if diff := cmp.Diff(want, installed("scheme.go")); diff != "" || len(want) < 20 {
		t.Errorf("groups (-upstream +ours): %s", diff)
	}
	for _, group := range []string{"apiextensions.k8s.io", "apiregistration.k8s.io"} {
		if !Scheme.IsGroupRegistered(group) {
			t.Errorf("%s is not in the scheme", group)
		}
	}
}
