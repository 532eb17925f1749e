package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestMoves checks that Rowlock serves the same as a kube-apiserver on etcd, and on kine, after an import from the running store; and that a
// kube-apiserver on an etcd that was restored from an export does, too. Every object is compared in every version.
func TestMoves(t *testing.T) {
	if os.Getenv("E2E_PEER") != "kube-apiserver" {
		t.Skip("`make compare` runs this")
	}
	for _, backend := range []harness.Backend{harness.Etcd, harness.KineSQLite} {
		if err := harness.Build(t.Context(), append(backend.Binaries(), "etcdutl")...); err != nil {
			t.Fatal(err)
		}
		t.Run(backend.Binaries()[1], func(t *testing.T) { move(t, backend) })
	}
}

func move(t *testing.T, backend harness.Backend) {
	// A kube-apiserver on kine sometimes misses events of the first objects of a new type, and its watch cache then never lists them.
	source := startPeer(t, backend, t.TempDir(), "--watch-cache=false")
	fill(t, source)
	options := onDatabase(harness.RowlockOptions{DataDir: t.TempDir(),
		// No other controller runs either: they complete objects that kube-apiserver alone leaves incomplete.
		Args: []string{"--controllers=-namespace-controller", "--service-cluster-ip-range=10.43.0.0/16"}})
	to := options.Datastore
	if to == "" {
		to = "sqlite://" + filepath.Join(options.DataDir, "rowlock.db")
	}
	do(t, "rowlock", "import", "--to", to, "--to-schema", options.Schema, source.Store)
	server := startServer(t, options)
	have := everything(t, server)
	want := everything(t, source)
	if len(want) < 1000 {
		t.Errorf("only %d objects were moved", len(want))
	}
	compareObjects(t, "imported", have, want)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}

	snapshot, dir := filepath.Join(t.TempDir(), "snapshot.db"), t.TempDir()
	do(t, "rowlock", "export", "--data-dir", options.DataDir, "--datastore", to, "--schema", options.Schema, snapshot)
	do(t, "etcdutl", "snapshot", "restore", snapshot, "--data-dir", filepath.Join(dir, "store"))
	compareObjects(t, "exported", everything(t, startPeer(t, harness.Etcd, dir)), have)
}

func startPeer(t *testing.T, backend harness.Backend, dir string, args ...string) *harness.Server {
	t.Helper()
	s, err := harness.StartKubeAPIServer(t.Context(), backend, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// do runs a program, which has to succeed.
func do(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), harness.Binary(name), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

const movedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.move.example.com"},"spec":{"group":"move.example.com",
"scope":"Namespaced","names":{"plural":"boats","kind":"Boat"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// fill creates an object of every type, several of some types, and changes some.
func fill(t *testing.T, server *harness.Server) {
	t.Helper()
	dir := t.TempDir()
	as := func(object any, args ...string) {
		t.Helper()
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "object.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		do(t, "kubectl", append([]string{"--kubeconfig", server.Kubeconfig, "--namespace", "default"}, append(args, "-f", file)...)...)
	}
	seen := map[string]bool{} // some kinds are in several versions, and events in two groups
	for _, manifest := range manifests(t, "default") {
		key := manifest.GetKind() + "/" + manifest.GetName()
		if seen[key] {
			continue
		}
		seen[key] = true
		as(manifest.Object, "apply", "--server-side", "--force-conflicts", "--validate=false")
	}
	var definition map[string]any
	if err := yaml.Unmarshal([]byte(movedDefinition), &definition); err != nil {
		t.Fatal(err)
	}
	as(definition, "create")
	do(t, "kubectl", "--kubeconfig", server.Kubeconfig, "wait", "--for=condition=Established", "--timeout=60s", "crd/boats.move.example.com")
	for i := range 20 {
		boat := map[string]any{"apiVersion": "move.example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": fmt.Sprintf("b%d", i), "finalizers": []any{"example.com/f"}},
			"spec": map[string]any{"n": i, "half": float64(i) + 0.5, "text": "<&>\u2028", "null": nil, "list": []any{1, "a", map[string]any{}}}}
		as(boat, "create")
	}
	do(t, "kubectl", "--kubeconfig", server.Kubeconfig, "-n", "default", "label", "boats", "--all", "color=red")
	do(t, "kubectl", "--kubeconfig", server.Kubeconfig, "-n", "default", "delete", "boat", "b3", "--wait=false")
	fillPublished(t, server)
}

// fillPublished creates the definitions that projects have published, and their example objects.
func fillPublished(t *testing.T, server *harness.Server) {
	t.Helper()
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := harness.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[schema.GroupVersionKind]dynamic.ResourceInterface{}
	for _, d := range definitions {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")).
			Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatalf("%s: %v", d.Name, err)
		}
		for _, v := range d.Spec.Versions {
			gv := schema.GroupVersion{Group: d.Spec.Group, Version: v.Name}
			all := client.Resource(gv.WithResource(d.Spec.Names.Plural))
			if kinds[gv.WithKind(d.Spec.Names.Kind)] = all; d.Spec.Scope == apiextensionsv1.NamespaceScoped {
				kinds[gv.WithKind(d.Spec.Names.Kind)] = all.Namespace("default")
			}
		}
	}
	do(t, "kubectl", "--kubeconfig", server.Kubeconfig, "wait", "--for=condition=Established", "--timeout=120s", "crd", "--all")
	examples, err := harness.Examples(t.Context(), func(k schema.GroupVersionKind) bool { return kinds[k] != nil })
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	for _, e := range examples {
		o := &unstructured.Unstructured{Object: e.Object}
		unstructured.RemoveNestedField(o.Object, "metadata", "namespace")
		if _, err := kinds[e.Kind()].Create(t.Context(), o, metav1.CreateOptions{}); err == nil { // some are invalid on purpose, and some share a name
			made++
		}
	}
	t.Logf("%d definitions, and %d of %d published objects", len(definitions), made, len(examples))
	if made < 100 {
		t.Error("these are too few")
	}
}

// everything lists all served objects, in all versions.
func everything(t *testing.T, server *harness.Server) map[string]*unstructured.Unstructured {
	t.Helper()
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	asks, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := asks.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // of an APIService without a server
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || r.Name == "componentstatuses" {
				continue
			}
			var objects *unstructured.UnstructuredList
			await(t.Context(), t, "list of "+r.Name, func() (bool, error) {
				objects, err = client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
				if apierrors.IsTooManyRequests(err) { // its watch cache is still starting
					return false, nil
				}
				return err == nil, err
			})
			for i := range objects.Items {
				o := &objects.Items[i]
				all[fmt.Sprintf("%s/%s/%s", gv.WithResource(r.Name), o.GetNamespace(), o.GetName())] = o
			}
		}
	}
	return all
}

// ownObjects are the prefixes of the keys of each server's objects about itself.
var ownObjects = []string{"coordination.k8s.io/v1, Resource=leases/kube-system/apiserver-", "/v1, Resource=endpoints/default/kubernetes",
	"discovery.k8s.io/v1, Resource=endpointslices/default/kubernetes", "/v1, Resource=configmaps/kube-system/extension-apiserver-authentication"}

func isOwn(key string) bool {
	return slices.ContainsFunc(ownObjects, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func compareObjects(t *testing.T, how string, got, want map[string]*unstructured.Unstructured) {
	t.Helper()
	compared := 0
	for key, o := range want {
		if isOwn(key) {
			continue
		}
		if got[key] == nil {
			t.Errorf("%s: %s is missing", how, key)
			continue
		}
		compared++
		if diff := cmp.Diff(o.Object, got[key].Object); diff != "" {
			t.Errorf("%s: %s differs (-want +got):\n%s", how, key, diff)
		}
	}
	for key := range got {
		if want[key] == nil && !isOwn(key) {
			t.Errorf("%s: %s is there, and was not", how, key)
		}
	}
	t.Logf("%s: %d objects compared", how, compared)
}
