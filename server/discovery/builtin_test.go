package discovery_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/discovery"
)

func TestBuiltinTypesAreUpstreams(t *testing.T) {
	dir := upstreamDir(t)
	reg := resources.NewRegistry()
	reg.SetGroups(builtin.Groups())
	h := discovery.New(reg, discovery.Options{})
	for _, g := range reg.Catalog().Groups() {
		for _, v := range g.Versions {
			path := "/apis/" + v.GroupVersion.String()
			if g.Name == "" {
				path = "/api/" + v.Version
			}
			want := readJSON[metav1.APIResourceList](t, filepath.Join(dir, fileOf(path)))
			got := decode[metav1.APIResourceList](t, get(t, h, path, ""))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
	}
}

// The order of groups is that of upstream's aggregated document, which has more groups.
func TestBuiltinGroupOrder(t *testing.T) {
	reg := resources.NewRegistry()
	reg.SetGroups(builtin.Groups())
	served := map[string]bool{}
	for _, g := range reg.Catalog().Groups() {
		served[g.Name] = true
	}
	var want, got []string
	for _, g := range readJSON[metav1.APIGroupList](t, filepath.Join(upstreamDir(t), "apis.json")).Groups {
		if served[g.Name] {
			want = append(want, g.Name)
		}
	}
	h := discovery.New(reg, discovery.Options{})
	for _, g := range decode[metav1.APIGroupList](t, get(t, h, "/apis", "")).Groups {
		got = append(got, g.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A group whose versions are all served by another server has the priority that this server requests.
func TestOrderOfGroupsServedElsewhere(t *testing.T) {
	reg := resources.NewRegistry()
	reg.SetGroups([]resources.GroupSpec{
		{Name: "a.example", Priority: 1000, Versions: []resources.VersionSpec{{Version: "v1"}}},
		{Name: "b.example", Priority: 1000, Versions: []resources.VersionSpec{{Version: "v1"}}},
	})
	elsewhere := &discovery.External{Versions: []discovery.ExternalVersion{
		{GroupVersion: schema.GroupVersion{Group: "a.example", Version: "v1"}, GroupPriority: 10, VersionPriority: 1}}}
	h := discovery.New(reg, discovery.Options{External: func() *discovery.External { return elsewhere }})
	var names []string
	for _, g := range decode[metav1.APIGroupList](t, get(t, h, "/apis", "application/json")).Groups {
		names = append(names, g.Name)
	}
	if want := []string{"b.example", "a.example"}; !slices.Equal(names, want) {
		t.Errorf("groups %q, want %q", names, want)
	}
}
