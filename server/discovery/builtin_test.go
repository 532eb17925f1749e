package discovery_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/discovery"
)

// storedElsewhere are resources that kube-apiserver still stores in a version older than the one it serves, so that
// it can be downgraded. Rowlock has no such past, and the hash says so.
var storedElsewhere = map[string]bool{
	"clustertrustbundles":       true,
	"customresourcedefinitions": true,
	"devicetaintrules":          true,
	"podcertificaterequests":    true,
	"storageversionmigrations":  true,
}

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
			ignore := cmpopts.IgnoreFields(metav1.APIResource{}, "StorageVersionHash")
			if diff := cmp.Diff(want, got, ignore); diff != "" {
				t.Errorf("%s: %s", path, diff)
				continue
			}
			for i, r := range got.APIResources {
				if same := r.StorageVersionHash == want.APIResources[i].StorageVersionHash; same == storedElsewhere[r.Name] {
					t.Errorf("%s %s: storageVersionHash %q, want %q", path, r.Name, r.StorageVersionHash, want.APIResources[i].StorageVersionHash)
				}
			}
		}
	}
}

// The order of groups is that of upstream's aggregated document, which lists more of them.
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
