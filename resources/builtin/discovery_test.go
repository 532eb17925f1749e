package builtin

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/rowlock/rowlock/resources"
)

// servedByDefault are the versions that kube-apiserver v1.37.1 serves without --runtime-config, in the order of its
// aggregated discovery.
var servedByDefault = []string{
	"v1",
	"apiregistration.k8s.io/v1",
	"apps/v1",
	"events.k8s.io/v1",
	"authentication.k8s.io/v1",
	"authorization.k8s.io/v1",
	"autoscaling/v2",
	"autoscaling/v1",
	"batch/v1",
	"certificates.k8s.io/v1",
	"networking.k8s.io/v1",
	"policy/v1",
	"rbac.authorization.k8s.io/v1",
	"storage.k8s.io/v1",
	"admissionregistration.k8s.io/v1",
	"apiextensions.k8s.io/v1",
	"scheduling.k8s.io/v1",
	"coordination.k8s.io/v1",
	"node.k8s.io/v1",
	"discovery.k8s.io/v1",
	"resource.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1",
	"storagemigration.k8s.io/v1",
}

func catalog(t *testing.T) *resources.Catalog {
	t.Helper()
	r := resources.NewRegistry()
	r.SetGroups(Groups())
	return r.Catalog()
}

func TestServedVersionsAndTheirOrder(t *testing.T) {
	var got []string
	for _, g := range catalog(t).Groups() {
		for _, v := range g.Versions {
			got = append(got, v.GroupVersion.String())
		}
	}
	want := slices.Clone(servedByDefault)
	// Core has its own discovery document; apiregistration is first among the groups.
	want[0], want[1] = want[1], want[0]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("served versions (-kube-apiserver +ours):\n%s", diff)
	}
}

// TestDiscoveryIsUpstreams compares the registry, with every version served, with the discovery documents in upstream's
// source.
func TestDiscoveryIsUpstreams(t *testing.T) {
	dir := discoveryDir(t)
	everything := serveAllTypes(t)
	var got []string
	for _, g := range everything.Groups() {
		if g.Name != "" { // core has its own document
			for _, v := range g.Versions {
				got = append(got, v.GroupVersion.String())
			}
		}
	}
	if diff := cmp.Diff(publishedVersions(t, dir), got); diff != "" {
		t.Errorf("every version (-upstream +ours):\n%s", diff)
	}
	for _, g := range everything.Groups() {
		for _, v := range g.Versions {
			t.Run(v.GroupVersion.String(), func(t *testing.T) {
				want := published(t, dir, v.GroupVersion)
				got := map[string]metav1.APIResource{}
				for _, s := range v.Resources {
					describe(s, got)
				}
				opts := cmp.Options{cmpopts.EquateEmpty(), cmpopts.SortSlices(strings.Compare)}
				if diff := cmp.Diff(want, got, opts); diff != "" {
					t.Errorf("resources (-upstream +ours):\n%s", diff)
				}
			})
		}
	}
}

// TestGatesRemoveTypes turns off the features without which kube-apiserver v1.37 does not serve types that it serves by default
// (storage_certificates.go and storage_storagemigration.go in k8s.io/kubernetes/pkg/registry).
func TestGatesRemoveTypes(t *testing.T) {
	gates := featuregatetesting.FeatureOverrides{features.ClusterTrustBundle: false, features.ClusterTrustBundleProjection: false,
		features.PodCertificateRequest: false, features.StorageVersionMigrator: false}
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, gates)
	c := serving(t, map[string]string{"api/all": "true"})
	for _, resource := range []string{"clustertrustbundles.certificates.k8s.io", "podcertificaterequests.certificates.k8s.io",
		"storageversionmigrations.storagemigration.k8s.io"} {
		if _, served := c.Type(resource); served {
			t.Errorf("%s is served without its feature", resource)
		}
	}
	if _, served := c.Type("certificatesigningrequests.certificates.k8s.io"); !served {
		t.Error("certificatesigningrequests.certificates.k8s.io is not served")
	}
	if _, served := c.Group("storagemigration.k8s.io"); served {
		t.Error("storagemigration.k8s.io is served without types")
	}
}

// describe adds the entries of a type in legacy discovery.
func describe(s *resources.Served, to map[string]metav1.APIResource) {
	main := metav1.APIResource{Name: s.Resource, SingularName: s.SingularName, Namespaced: s.Namespaced, Kind: s.Type.Kind,
		Verbs: s.Verbs(), ShortNames: s.ShortNames, Categories: s.Categories}
	if s.Stored() {
		main.StorageVersionHash = storageHash(s.HashedKind())
	}
	to[main.Name] = main
	for _, sub := range s.Subresources {
		r := metav1.APIResource{Name: s.Resource + "/" + sub.Name, Namespaced: s.Namespaced, Kind: s.Type.Kind, Verbs: sub.Verbs}
		if !sub.Kind.Empty() {
			r.Kind = sub.Kind.Kind
			if gv := sub.Kind.GroupVersion(); gv != s.GroupVersion() {
				r.Group, r.Version = gv.Group, gv.Version
			}
		}
		to[r.Name] = r
	}
}

func storageHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}

// publishedVersions are all versions in the order of aggregated discovery.
func publishedVersions(t *testing.T, dir string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "aggregated_v2.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, g := range list.Items {
		for _, v := range g.Versions {
			versions = append(versions, schema.GroupVersion{Group: g.Name, Version: v.Version}.String())
		}
	}
	return versions
}

func published(t *testing.T, dir string, gv schema.GroupVersion) map[string]metav1.APIResource {
	t.Helper()
	name := "apis__" + gv.Group + "__" + gv.Version + ".json"
	if gv.Group == "" {
		name = "api__" + gv.Version + ".json"
	}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		out[r.Name] = r
	}
	return out
}

// discoveryDir is the folder of the discovery documents in the source of k8s.io/kubernetes.
func discoveryDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("find the source of k8s.io/kubernetes: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "api", "discovery")
}
