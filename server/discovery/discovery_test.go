package discovery_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/discovery"
)

const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// upstreamDir is the folder of upstream's discovery documents for a server with every group enabled.
func upstreamDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "api", "discovery")
}

func readJSON[T any](t *testing.T, path string) T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// fileOf is the name of a path's document in upstream's folder.
func fileOf(path string) string {
	return strings.ReplaceAll(strings.Trim(path, "/"), "/", "__") + ".json"
}

// upstreamRegistry registers the resources in upstream's documents, so that serving it must reproduce the documents.
func upstreamRegistry(t *testing.T, dir string) *resources.Registry {
	t.Helper()
	reg := resources.NewRegistry()
	groups := []metav1.APIGroup{{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "v1", Version: "v1"}}}}
	groups = append(groups, readJSON[metav1.APIGroupList](t, filepath.Join(dir, "apis.json")).Groups...)
	for i, g := range groups {
		spec := resources.GroupSpec{Name: g.Name, Priority: 1000 - i}
		for j, v := range g.Versions {
			path := "apis/" + v.GroupVersion
			if g.Name == "" {
				path = "api/v1"
			}
			list := readJSON[metav1.APIResourceList](t, filepath.Join(dir, fileOf(path)))
			spec.Versions = append(spec.Versions, resources.VersionSpec{
				Version: v.Version, Priority: 100 - j, Types: typesOf(g, list),
			})
		}
		reg.SetGroup(spec)
	}
	return reg
}

func typesOf(g metav1.APIGroup, list metav1.APIResourceList) []*resources.Type {
	types := map[string]*resources.Type{}
	for _, r := range list.APIResources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		typ := &resources.Type{
			GroupResource: schema.GroupResource{Group: g.Name, Resource: r.Name},
			Kind:          r.Kind, SingularName: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories,
			Namespaced: r.Namespaced, Subresources: map[string]*resources.Subresource{},
		}
		if r.StorageVersionHash == "" {
			typ.Computed = func(context.Context, resources.Reader, resources.ComputedQuery) (p resources.ComputedPage, err error) {
				return p, nil
			}
		}
		typ.ServedVerbs = r.Verbs
		typ.StorageVersion = storageVersion(g, r)
		types[r.Name] = typ
	}
	for _, r := range list.APIResources {
		parent, name, ok := strings.Cut(r.Name, "/")
		if !ok {
			continue
		}
		sub := &resources.Subresource{Name: name, Verbs: slices.Clone(r.Verbs)}
		slices.Reverse(sub.Verbs)
		if r.Kind != types[parent].Kind {
			sub.Kind = schema.FromAPIVersionAndKind(list.GroupVersion, r.Kind)
			if r.Version != "" {
				sub.Kind.Group, sub.Kind.Version = r.Group, r.Version
			}
		}
		types[parent].Subresources[name] = sub
	}
	var out []*resources.Type
	for _, typ := range types {
		out = append(out, typ)
	}
	return out
}

// storageVersion finds the version that was hashed. Events are stored in the core group, CustomResourceDefinitions in a version that is not served.
func storageVersion(g metav1.APIGroup, r metav1.APIResource) schema.GroupVersion {
	candidates := []schema.GroupVersion{{Version: "v1"}, {Group: g.Name, Version: "v1beta1"}}
	for _, v := range g.Versions {
		candidates = append(candidates, schema.GroupVersion{Group: g.Name, Version: v.Version})
	}
	for _, gv := range candidates {
		sum := sha256.Sum256([]byte(gv.Group + "/" + gv.Version + "/" + r.Kind))
		if base64.StdEncoding.EncodeToString(sum[:8]) == r.StorageVersionHash {
			return gv
		}
	}
	return schema.GroupVersion{}
}

func get(t *testing.T, h http.Handler, path, accept string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", accept)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

func TestDocumentsAreUpstreams(t *testing.T) {
	dir := upstreamDir(t)
	h := discovery.New(upstreamRegistry(t, dir), discovery.Options{})
	paths, err := filepath.Glob(filepath.Join(dir, "api*__*.json"))
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d documents, %v", len(paths), err)
	}
	for _, file := range append(paths, filepath.Join(dir, "apis.json")) {
		path := "/" + strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".json"), "__", "/")
		t.Run(path, func(t *testing.T) {
			want, got := readJSON[any](t, file), decode[any](t, get(t, h, path, "application/json"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			slash := decode[any](t, get(t, h, path+"/", "*/*"))
			if diff := cmp.Diff(want, slash); diff != "" {
				t.Errorf("with a slash at the end: %s", diff)
			}
		})
	}
}

func TestAggregatedIsUpstreams(t *testing.T) {
	dir := upstreamDir(t)
	h := discovery.New(upstreamRegistry(t, dir), discovery.Options{})
	want := readJSON[apidiscoveryv2.APIGroupDiscoveryList](t, filepath.Join(dir, "aggregated_v2.json"))
	got := decode[apidiscoveryv2.APIGroupDiscoveryList](t, get(t, h, "/apis", aggregatedJSON))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	core := decode[apidiscoveryv2.APIGroupDiscoveryList](t, get(t, h, "/api", aggregatedJSON))
	if len(core.Items) != 1 || core.Items[0].Name != "" || core.Items[0].Versions[0].Version != "v1" {
		t.Errorf("/api: %v", core.Items)
	}
}

func TestServerAddressIsOfTheRequest(t *testing.T) {
	h := discovery.New(smallRegistry(), discovery.Options{ServerAddress: func(r *http.Request) string { return r.Host + ":1" }})
	got := decode[metav1.APIVersions](t, get(t, h, "/api", ""))
	want := metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
		Versions:                   []string{"v1"},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: "example.com:1"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A client with an address in the range of Services is told the address of the Service kubernetes, too, as by kube-apiserver v1.37.1.
func TestServerAddressIsOfTheService(t *testing.T) {
	_, services, err := net.ParseCIDR("10.43.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	h := discovery.New(smallRegistry(), discovery.Options{ServiceRange: services})
	for from, want := range map[string][]metav1.ServerAddressByClientCIDR{
		"10.44.0.1": {{ClientCIDR: "0.0.0.0/0"}},
		"nonsense":  {{ClientCIDR: "0.0.0.0/0"}},
		"10.43.3.4": {{ClientCIDR: "0.0.0.0/0"}, {ClientCIDR: "10.43.0.0/16", ServerAddress: "10.43.0.1:443"}},
	} {
		for _, header := range []string{"", "X-Forwarded-For", "X-Real-Ip"} {
			r := httptest.NewRequest("GET", "/api", nil)
			if r.RemoteAddr = from + ":1"; header != "" {
				r.RemoteAddr = "192.0.2.1:1"
				r.Header.Set(header, from)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if diff := cmp.Diff(want, decode[metav1.APIVersions](t, w).ServerAddressByClientCIDRs); diff != "" {
				t.Errorf("%s %s: %s", header, from, diff)
			}
		}
	}
}

func smallRegistry() *resources.Registry {
	reg := resources.NewRegistry()
	reg.SetGroups([]resources.GroupSpec{
		{Name: "", Priority: 2, Versions: []resources.VersionSpec{{Version: "v1", Types: []*resources.Type{
			{GroupResource: schema.GroupResource{Resource: "pods"}, Kind: "Pod", SingularName: "pod", Namespaced: true},
		}}}},
		{Name: "apps", Priority: 1, Versions: []resources.VersionSpec{{Version: "v1"}}},
	})
	return reg
}

func TestETag(t *testing.T) {
	reg := smallRegistry()
	h := discovery.New(reg, discovery.Options{})
	first := get(t, h, "/apis", aggregatedJSON)
	etag := first.Header().Get("ETag")
	for name, want := range map[string]string{"Cache-Control": "public", "Vary": "Accept"} {
		if got := first.Header().Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if w := get(t, h, "/apis", aggregatedJSON, "If-None-Match", etag); w.Code != http.StatusNotModified || w.Body.Len() > 0 ||
		w.Header().Get("ETag") != etag || w.Header().Get("Content-Type") != "" {
		t.Errorf("the same ETag: %d %v", w.Code, w.Header())
	}
	if w := get(t, h, "/apis", "application/json", "If-None-Match", etag); w.Code != http.StatusOK || w.Header().Get("ETag") != "" {
		t.Errorf("the list of groups has no ETag: %d %v", w.Code, w.Header())
	}
	reg.SetGroup(resources.GroupSpec{Name: "example.org", Versions: []resources.VersionSpec{{Version: "v1beta1"}, {Version: "v1"}}})
	w := get(t, h, "/apis", aggregatedJSON, "If-None-Match", etag)
	if w.Header().Get("ETag") == etag {
		t.Error("a new group did not change the ETag")
	}
	items := decode[apidiscoveryv2.APIGroupDiscoveryList](t, w).Items
	if len(items) != 2 || items[1].Name != "example.org" || items[1].Versions[0].Version != "v1" {
		t.Errorf("a new group: %v", items)
	}
	group := decode[metav1.APIGroup](t, get(t, h, "/apis/example.org", ""))
	if group.PreferredVersion.GroupVersion != "example.org/v1" {
		t.Errorf("preferred: %v", group.PreferredVersion)
	}
}

func TestPretty(t *testing.T) {
	h := discovery.New(smallRegistry(), discovery.Options{})
	const compact, indented = `{"kind":"APIVersions",`, "{\n  \"kind\": \"APIVersions\","
	for _, c := range []struct{ query, agent, accept, prefix string }{
		{"", "Go-http-client/1.1", "", compact},
		{"", "curl/8", "", indented},
		{"?pretty=0", "curl/8", "", compact},
		{"?pretty=1", "Go-http-client/1.1", "", indented},
		{"", "", "application/json;pretty=1", indented},
	} {
		w := get(t, h, "/api"+c.query, c.accept, "User-Agent", c.agent)
		if !strings.HasPrefix(w.Body.String(), c.prefix) {
			t.Errorf("%+v: %.40s", c, w.Body)
		}
	}
}

// Without the gate, only custom resources have a hash of the storage version.
func TestNoStorageVersionHashes(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.StorageVersionHash, false)
	for _, custom := range []bool{false, true} {
		registry := resources.NewRegistry()
		registry.SetGroup(resources.GroupSpec{Name: "example.com", Versions: []resources.VersionSpec{{Version: "v1", Types: []*resources.Type{{
			GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}, Kind: "Widget", Untyped: custom,
			StorageVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}}}}}})
		w := httptest.NewRecorder()
		discovery.New(registry, discovery.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/example.com/v1", http.NoBody))
		if has := strings.Contains(w.Body.String(), "storageVersionHash"); w.Code != http.StatusOK || has != custom {
			t.Errorf("custom is %v: %d %s", custom, w.Code, w.Body)
		}
	}
}
