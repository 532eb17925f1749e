package builtin

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"

	"github.com/rowlock/rowlock/resources"
)

// The indexed fields are those of upstream's predicates.
func TestIndexedFields(t *testing.T) {
	all, every := labels.Everything(), fields.Everything()
	upstream := map[string][]string{
		"pods":                           pod.MatchPod(all, every).IndexFields,
		"resourceslices.resource.k8s.io": resourceslice.Match(all, every).IndexFields,
	}
	forEachType(t, false, func(t *testing.T, s *resources.Served) {
		if got := strings.Fields(s.Indexed); !slices.Equal(got, upstream[s.GroupResource.String()]) {
			t.Errorf("%q are indexed, and %q upstream", got, upstream[s.GroupResource.String()])
		}
	})
}
