package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// A user with the role admin of a namespace, who may not write the status of workloads, restores everything else, field managers included.
func TestRestoreAsNamespaceAdmin(t *testing.T) {
	dir, scratch := filepath.Join(t.TempDir(), "data"), t.TempDir()
	file, jane := filepath.Join(scratch, "backup"), filepath.Join(scratch, "jane")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	before := shop(t, client)
	send(t, client, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", `{"metadata":{"name":"jane"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	if err := os.WriteFile(jane, []byte(runs(t, "kubeconfig", "--user", "jane", "--data-dir", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, "backup", file, "--data-dir", dir)
	for _, path := range []string{"/apis/apps/v1/namespaces/shop/replicasets/web-1", shopDeployments + "/web", "/api/v1/namespaces/shop/configmaps/a"} {
		send(t, client, "DELETE", path, "")
	}
	out := runs(t, "restore", file, "--kubeconfig", jane, "--object", "deploy/shop/web,rs/shop/web-1,cm/shop/a")
	for _, want := range []string{"deployments.apps/shop/web: its status was left: deployments.apps \"web\" is forbidden: ", "deployments.apps/shop/web: created\n",
		"replicasets.apps/shop/web-1: created\n", "configmaps/shop/a: created\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%slacks %q", out, want)
		}
	}
	d, err := client.AppsV1().Deployments("shop").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || len(d.ManagedFields) == 0 || managersOf(d.ManagedFields) != managersOf(before.ManagedFields) {
		t.Errorf("the managers are %s, want %s (%v)", managersOf(d.ManagedFields), managersOf(before.ManagedFields), err)
	}
}

// A user who may create objects and not update them cannot restore their field managers, which no controller sets again: that is an error.
func TestRestoreWithoutTheRightToUpdate(t *testing.T) {
	dir, scratch := filepath.Join(t.TempDir(), "data"), t.TempDir()
	file, jane := filepath.Join(scratch, "backup"), filepath.Join(scratch, "jane")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	shop(t, client)
	const roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/role"
	send(t, client, "POST", roles+"s", `{"metadata":{"name":"creator"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","create"]}]}`)
	send(t, client, "POST", roles+"bindings", `{"metadata":{"name":"jane"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"creator"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	if err := os.WriteFile(jane, []byte(runs(t, "kubeconfig", "--user", "jane", "--data-dir", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, "backup", file, "--data-dir", dir)
	send(t, client, "DELETE", "/api/v1/namespaces/shop/configmaps/a", "")
	code, _, stderr := command(t, "restore", file, "--kubeconfig", jane, "--object", "cm/shop/a")
	if want := "configmaps/shop/a: its field managers were not restored: configmaps \"a\" is forbidden: "; code != exitFailure || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s, want %s", code, stderr, want)
	}
}

// managersOf returns the names of field managers, and what each has written.
func managersOf(entries []metav1.ManagedFieldsEntry) string {
	var names []string
	for _, by := range entries {
		names = append(names, string(by.Operation)+" "+by.Manager+by.Subresource)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// rivals is a connection on which other clients write an object between the requests of a restore.
type rivals struct {
	http.RoundTripper
	before func(r *http.Request)
}

func (r rivals) RoundTrip(request *http.Request) (*http.Response, error) {
	r.before(request)
	return r.RoundTripper.RoundTrip(request)
}

// Where controllers write an object between its restore and that of its status and field managers, both are restored, and what the controllers have
// written stays.
func TestRestoreOfManagersBesideControllers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	shop(t, client)
	was := send(t, client, "GET", shopDeployments+"/web", "")
	admin := adminOptions{dataDir: dir}
	const annotate = `{"metadata":{"annotations":{"rival":"%"}}}`
	for name, test := range map[string]struct {
		before map[string]string // the path of a rival's patch, by the request of the restore before which it comes
		body   string
		always bool
		err    string
		says   string
	}{
		"between":      {before: map[string]string{"PUT /status": "", "PUT ": ""}, body: annotate},
		"status":       {before: map[string]string{"PUT /status": "/status"}, body: `{"status":{"replicas":9}}`, says: "its status was left: another client has set it meanwhile\n"},
		"at all times": {before: map[string]string{"PUT ": ""}, body: annotate, always: true, err: "deployments.apps/shop/web: its field managers were not restored: it has changed meanwhile, run it again: "},
	} {
		t.Run(name, func(t *testing.T) {
			send(t, client, "DELETE", shopDeployments+"/web", "")
			c, err := admin.client()
			if err != nil {
				t.Fatal(err)
			}
			writes := 0
			c.client.Transport = rivals{c.client.Transport, func(r *http.Request) {
				key := r.Method + " " + strings.TrimPrefix(r.URL.Path, shopDeployments+"/web")
				path, ok := test.before[key]
				if !ok {
					return
				}
				writes++
				if _, err := client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(shopDeployments+"/web"+path).Param("fieldManager", "rival").
					Body([]byte(strings.ReplaceAll(test.body, "%", strings.Repeat("x", writes)))).DoRaw(t.Context()); err != nil {
					t.Error(err)
				}
				if !test.always {
					delete(test.before, key)
				}
			}}
			restored := &part{resource: "deployments.apps", object: &unstructured.Unstructured{}}
			if err := restored.object.UnmarshalJSON([]byte(was)); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			take := &takeBack{client: c, out: &out, resources: map[string]*servedResources{}, uids: map[types.UID]types.UID{}}
			err = take.group(t.Context(), []*part{restored})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("it ended with %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || !strings.Contains(out.String(), test.says) {
				t.Errorf("it said %q, %v, want %q", out.String(), err, test.says)
			}
			now := send(t, client, "GET", shopDeployments+"/web", "")
			var got, want struct{ Metadata metav1.ObjectMeta }
			for text, into := range map[string]any{now: &got, was: &want} {
				if err := json.Unmarshal([]byte(text), into); err != nil {
					t.Fatal(err)
				}
			}
			rival := metav1.ManagedFieldsEntry{Manager: "rival", Operation: metav1.ManagedFieldsOperationUpdate}
			status := gjson.Get(was, "status").Raw
			if test.says != "" {
				rival.Subresource, status = "status", `{"replicas":9}`
			}
			if want := managersOf(append(want.Metadata.ManagedFields, rival)); managersOf(got.Metadata.ManagedFields) != want {
				t.Errorf("the managers are %s, want %s", managersOf(got.Metadata.ManagedFields), want)
			}
			if now := gjson.Get(now, "status").Raw; now != status {
				t.Errorf("the status is %s, want %s", now, status)
			}
			if value := got.Metadata.Annotations["rival"]; test.says == "" && value != "xx" {
				t.Errorf("the rival's annotation is %q", value)
			}
		})
	}
}

// The fields that a manager had in the backup and those that it has written since are its fields.
func TestWithLater(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	had := []metav1.ManagedFieldsEntry{entry("a", `{"f:data":{"f:x":{}}}`), entry("b", `{"f:data":{"f:y":{}}}`)}
	after := []metav1.ManagedFieldsEntry{entry("c", `{"f:data":{"f:c":{}}}`), entry(takeBackManager, `{"f:data":{"f:x":{},"f:y":{}}}`)}
	now := append(slices.Clone(after), entry("a", `{"f:data":{"f:z":{}}}`), entry("d", `{"f:data":{"f:d":{}}}`))
	var all []string
	for _, e := range withLater(had, after, now) {
		all = append(all, e.Manager+e.FieldsV1.GetRawString())
	}
	if want := []string{`a{"f:data":{"f:x":{},"f:z":{}}}`, `b{"f:data":{"f:y":{}}}`, `d{"f:data":{"f:d":{}}}`}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
}
