package main

import (
	"bufio"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// shopDeployment and its dependents.
const (
	shopDeployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}`
	shopReplicaSet = `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"UID"}]},
		"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}`
)

// shop creates a namespace with objects of several kinds.
func shop(t *testing.T, client kubernetes.Interface) *appsv1.Deployment {
	t.Helper()
	send(t, client, "POST", "/api/v1/namespaces", `{"metadata":{"name":"shop","labels":{"of":"us"}}}`)
	send(t, client, "POST", "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"a"},"data":{"v":"1"}}`)
	if _, err := client.AppsV1().RESTClient().Patch(types.ApplyPatchType).AbsPath("/apis/apps/v1/namespaces/shop/deployments/web").Param("fieldManager", "somebody").
		Body([]byte(shopDeployment)).DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, client, "PATCH", "/apis/apps/v1/namespaces/shop/deployments/web/status", `{"status":{"replicas":2,"readyReplicas":1}}`)
	d, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "POST", "/apis/apps/v1/namespaces/shop/replicasets", strings.Replace(shopReplicaSet, "UID", string(d.UID), 1))
	send(t, client, "POST", "/api/v1/namespaces/shop/events", `{"metadata":{"name":"e"},"involvedObject":{"namespace":"shop"}}`)
	send(t, client, "POST", "/apis/coordination.k8s.io/v1/namespaces/shop/leases", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"before"}}`)
	return d
}

// A namespace is restored into a running server. Unchanged objects are left alone, changed ones are updated, and missing ones are created, owners
// with their dependents; their field managers are restored. A dry run reports what a restore does, and writes nothing.
func TestRestoreNamespace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data-dir", dir)
	client := p.client(t)
	before := shop(t, client)
	file := filepath.Join(t.TempDir(), "backup")
	runs(t, "backup", file, "--data-dir", dir)
	restore := func(args ...string) string {
		t.Helper()
		return runs(t, append([]string{"restore", file, "--data-dir", dir, "--namespace", "shop"}, args...)...)
	}
	says := func(out string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(out, want+"\n") {
				t.Errorf("%s\nlacks %q", out, want)
			}
		}
	}
	if out := restore(); strings.Contains(out, "created") || strings.Contains(out, "updated") || strings.Contains(out, "events/") || strings.Contains(out, "leases") {
		t.Errorf("where nothing has changed: %s", out)
	}
	send(t, client, "PATCH", "/apis/apps/v1/namespaces/shop/deployments/web", `{"spec":{"replicas":7}}`)
	send(t, client, "DELETE", "/api/v1/namespaces/shop/configmaps/a", "")
	send(t, client, "POST", "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"later"}}`)
	says(restore("--dry-run"), "configmaps/shop/a: would be created", "deployments.apps/shop/web: would be updated", "replicasets.apps/shop/web-1: unchanged")
	if d, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || *d.Spec.Replicas != 7 {
		t.Errorf("the dry run did something: %v, %v", d, err)
	}
	says(restore(), "configmaps/shop/a: created", "deployments.apps/shop/web: updated", "namespaces/shop: unchanged")
	same := func(ignored ...string) {
		t.Helper()
		d, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, d, cmpopts.IgnoreFields(metav1.ObjectMeta{}, ignored...)); diff != "" {
			t.Errorf("-before the backup, +taken back:\n%s", diff)
		}
	}
	same("ResourceVersion", "Generation")
	if _, err := client.CoreV1().ConfigMaps("shop").Get(t.Context(), "later", metav1.GetOptions{}); err != nil {
		t.Errorf("what the backup does not have: %v", err)
	}

	// The whole namespace is gone.
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=shop"})
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "DELETE", "/api/v1/namespaces/shop", "")
	for e := range w.ResultChan() {
		if e.Type == "DELETED" {
			break
		}
	}
	w.Stop()
	out := restore("--dry-run")
	if !strings.Contains(out, "namespaces/shop: would be created\n") || !strings.Contains(out, "configmaps/shop/a: would be created, when") {
		t.Errorf("without the namespace: %s", out)
	}
	says(restore(), "namespaces/shop: created", "configmaps/shop/a: created", "deployments.apps/shop/web: created", "replicasets.apps/shop/web-1: created")
	same("ResourceVersion", "UID", "CreationTimestamp")
	d, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.AppsV1().ReplicaSets("shop").Get(t.Context(), "web-1", metav1.GetOptions{})
	if err != nil || len(r.OwnerReferences) != 1 || r.OwnerReferences[0].UID != d.UID {
		t.Errorf("the owners are %v, the deployment is %s (%v)", r.OwnerReferences, d.UID, err)
	}
	p.end()
}

// Single objects are restored by name. Objects that the backup lacks are reported, and objects that cannot be written
// are found before any is written.
func TestRestoreObjects(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data-dir", dir)
	client := p.client(t)
	shop(t, client)
	send(t, client, "POST", "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"set"},"data":{"v":"1"}}`)
	file := filepath.Join(t.TempDir(), "backup")
	runs(t, "backup", file, "--data-dir", dir)
	send(t, client, "DELETE", "/api/v1/namespaces/shop/configmaps/a", "")
	send(t, client, "PATCH", "/api/v1/namespaces/shop", `{"metadata":{"labels":{"of":"them"}}}`)

	code, _, stderr := command(t, "restore", file, "--data-dir", dir, "--object", "configmap/shop/a,configmap/shop/b")
	if code != exitFailure || !strings.Contains(stderr, "does not have configmap/shop/b") {
		t.Errorf("an object that is not there: %d, %s", code, stderr)
	}
	if _, _, stderr = command(t, "restore", file, "--data-dir", dir, "--object", "configmap/a"); !strings.HasSuffix(stderr, "does not have configmap/a; what is in a namespace is named with it, as in deployment/shop/web\n") {
		t.Errorf("an object without its namespace: %s", stderr)
	}
	send(t, client, "PATCH", "/api/v1/namespaces/shop/configmaps/set", `{"data":{"v":"2"},"immutable":true}`)
	code, stdout, stderr := command(t, "restore", file, "--data-dir", dir, "--object", "configmaps/shop/a", "--object", "ConfigMap/shop/set")
	if code != exitFailure || !strings.Contains(stdout, "configmaps/shop/set: cannot be taken back") ||
		!strings.Contains(stdout, "as it was, it can be created only after what is there is deleted\n") {
		t.Errorf("what cannot be changed: %d, %s%s", code, stdout, stderr)
	}
	if _, err := client.CoreV1().ConfigMaps("shop").Get(t.Context(), "a", metav1.GetOptions{}); err == nil {
		t.Error("a part of what cannot be done was done")
	}
	runs(t, "restore", file, "--data-dir", dir, "--object", "cm/shop/a", "--object", "ns/shop")
	if _, err := client.CoreV1().ConfigMaps("shop").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if n, err := client.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil || n.Labels["of"] != "us" {
		t.Errorf("the namespace has %v, %v", n.Labels, err)
	}
	// A reference to a missing owner would make the garbage collector delete the object.
	send(t, client, "DELETE", "/apis/apps/v1/namespaces/shop/replicasets/web-1", "")
	send(t, client, "DELETE", "/apis/apps/v1/namespaces/shop/deployments/web", "")
	out := runs(t, "restore", file, "--data-dir", dir, "--object", "replicaset/shop/web-1")
	if !strings.Contains(out, "replicasets.apps/shop/web-1: its owner Deployment web is not there, and is left out\n") {
		t.Errorf("an owner that is gone: %s", out)
	}
	if r, err := client.AppsV1().ReplicaSets("shop").Get(t.Context(), "web-1", metav1.GetOptions{}); err != nil || len(r.OwnerReferences) > 0 {
		t.Errorf("without its owner: %v, %v", r, err)
	}
	for _, kind := range []string{"deployments", "deployment", "deploy", "Deployment", "deployments.apps", "deploy.apps", "deployments.v1.apps"} {
		if out := runs(t, "restore", file, "--data-dir", dir, "--dry-run", "--object", kind+"/shop/web"); !strings.Contains(out, "deployments.apps/shop/web: would be created\n") {
			t.Errorf("%s: %s", kind, out)
		}
	}
	for _, args := range []string{"--dry-run", "--object a", "--object a/b/c/d", "--kubeconfig x"} {
		if code, _, stderr := command(t, append([]string{"restore", file, "--data-dir", dir}, strings.Fields(args)...)...); code != exitUsage {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
	p.end()
}

// Objects that the server had encrypted are restored with its keys, however they are named, and not without.
func TestRestoreOfEncrypted(t *testing.T) {
	dir, scratch := filepath.Join(t.TempDir(), "data"), t.TempDir()
	keys, others, file := filepath.Join(scratch, "keys"), filepath.Join(scratch, "others"), filepath.Join(scratch, "backup")
	encrypt(t, keys, "*.*", secretbox("a"))
	encrypt(t, others, "*.*", secretbox("b"))
	p := start(t, "--data-dir", dir, "--encryption-provider-config", keys)
	client := p.client(t)
	send(t, client, "POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	send(t, client, "POST", "/api/v1/namespaces/shop/secrets", `{"metadata":{"name":"s"},"stringData":{"k":"hidden"}}`)
	send(t, client, "POST", "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"a"},"data":{"v":"1"}}`)
	send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v2")+`}}`)
	send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
	runs(t, "backup", file, "--data-dir", dir)
	send(t, client, "DELETE", "/api/v1/namespaces/shop/secrets/s", "")
	send(t, client, "PATCH", "/api/v1/namespaces/shop/configmaps/a", `{"data":{"v":"2"}}`)
	restore := func(args ...string) (int, string, string) {
		return command(t, append([]string{"restore", file, "--data-dir", dir}, args...)...)
	}
	for _, what := range [][]string{{"--object", "cm/shop/a"}, {"--namespace", "shop"}} {
		for with, want := range map[string]string{"": "is encrypted in the backup, and needs the keys of its server (--encryption-provider-config): ",
			others: "is encrypted in the backup, and needs the keys of its server (--encryption-provider-config): no matching key", keys + ".not": "no such file"} {
			if code, stdout, stderr := restore(append(what, "--encryption-provider-config", with)...); code != exitFailure || !strings.Contains(stderr, want) || stdout != "" {
				t.Errorf("%s, with the keys %q: %d, %s%s", what, with, code, stdout, stderr)
			}
		}
	}
	code, out, stderr := restore("--encryption-provider-config", keys, "--namespace", "shop")
	if code != 0 || !strings.Contains(out, "secrets/shop/s: created\n") || !strings.Contains(out, "configmaps/shop/a: updated\n") {
		t.Errorf("with the keys: %d, %s%s", code, out, stderr)
	}
	if s, err := client.CoreV1().Secrets("shop").Get(t.Context(), "s", metav1.GetOptions{}); err != nil || string(s.Data["k"]) != "hidden" {
		t.Errorf("the Secret has %q, %v", s.Data, err)
	}
	if c, err := client.CoreV1().ConfigMaps("shop").Get(t.Context(), "a", metav1.GetOptions{}); err != nil || c.Data["v"] != "1" {
		t.Errorf("the ConfigMap has %v, %v", c.Data, err)
	}
	// The kind of an unserved type is in the encrypted part of a row.
	deleteDefinition(t, client)
	code, out, stderr = restore("--encryption-provider-config", keys, "--object", "widget/default/w")
	if code != exitFailure || !strings.Contains(out, "widgets.example.com/default/w: cannot be taken back: the server does not serve example.com/v2\n") {
		t.Errorf("without its definition: %d, %s%s", code, out, stderr)
	}
	p.end()
}

// deleteDefinition deletes the definition of widgets, and waits until it is gone.
func deleteDefinition(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	w, err := client.CoreV1().RESTClient().Get().AbsPath(crds).Param("watch", "true").Param("fieldSelector", "metadata.name=widgets.example.com").Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, "DELETE", crds+"/widgets.example.com", "")
	for lines := bufio.NewScanner(w); lines.Scan() && !strings.HasPrefix(lines.Text(), `{"type":"DELETED"`); {
	}
	_ = w.Close()
}

// A custom resource whose definition is gone cannot be restored without it, and is restored together with it.
func TestRestoreWithoutADefinition(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data-dir", dir)
	client := p.client(t)
	send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v2")+`}}`)
	send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1}}`)
	runs(t, "backup", file, "--data-dir", dir)
	deleteDefinition(t, client)
	code, stdout, _ := command(t, "restore", file, "--data-dir", dir, "--object", "widget/default/w")
	if code != exitFailure || !strings.Contains(stdout, "widgets.example.com/default/w: cannot be taken back: the server does not serve example.com/v2\n") {
		t.Errorf("without its definition: %d, %s", code, stdout)
	}
	both := []string{"restore", file, "--data-dir", dir, "--object", "crd/widgets.example.com,widget/default/w"}
	if out := runs(t, append(both, "--dry-run")...); !strings.Contains(out, "w: would be created, when what it needs is there: the server does not serve example.com/v2\n") {
		t.Errorf("a dry run with it: %s", out)
	}
	if out := runs(t, both...); !strings.Contains(out, "widgets.example.com/default/w: created\n") {
		t.Errorf("with it: %s", out)
	}
	p.end()
}
