package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestControllerManagerMigrates checks that the storage version migrator of an unmodified kube-controller-manager performs a migration by itself.
func TestControllerManagerMigrates(t *testing.T) {
	server := startServer(t, harness.RowlockOptions{Args: []string{"--controllers=*,-storage-version-migrator-controller"}})
	client := clientFor(t, server)
	k := kubectl{namespace: "default"}
	run := func(object string, args ...string) string {
		t.Helper()
		args = append([]string{"--kubeconfig", server.Kubeconfig}, args...)
		if object != "" {
			file := filepath.Join(t.TempDir(), "object.json")
			if err := os.WriteFile(file, []byte(object), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-f", file)
		}
		return k.run(t, args...)
	}
	version := func(name string, stored bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object"}}}`, name, stored)
	}
	widget := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":%q}}`, name)
	}
	run(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[`+version("v1", true)+`,`+version("v2", false)+`]}}`, "create")
	run(widget("old"), "create")
	run("", "patch", "crd", "widgets.example.com", "--type=merge", "-p", `{"spec":{"versions":[`+version("v1", false)+`,`+version("v2", true)+`]}}`)
	startControllerManager(t, server)

	migrations := client.StoragemigrationV1().StorageVersionMigrations()
	events, err := migrations.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	_, err = migrations.Create(t.Context(), &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "widgets"},
		Spec: storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "example.com", Resource: "widgets"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	known := false
	for e := range events.ResultChan() {
		m, ok := e.Object.(*storagemigrationv1.StorageVersionMigration)
		if !ok {
			t.Fatalf("%v %v", e.Type, e.Object)
		}
		if m.Status.ResourceVersion != "" && !known {
			// It waits until its garbage collector has reached that revision, as bookmarks and events show.
			known = true
			run(widget("new"), "create")
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, "Running"); c != nil && c.Status == metav1.ConditionFalse {
			if !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") {
				t.Errorf("it ended with %+v", m.Status)
			}
			break
		}
	}
	if got := run("", "get", "crd", "widgets.example.com", "-o", `jsonpath={.status.storedVersions} {.status.conditions[?(@.type=="StorageMigrating")].reason}`); got != `["v2"] MigrationSucceeded` {
		t.Errorf("the definition says %s", got)
	}
	run("", "patch", "crd", "widgets.example.com", "--type=merge", "-p", `{"spec":{"versions":[`+version("v2", true)+`]}}`)
	if got := run("", "get", "widgets", "-o", "name"); got != "widget.example.com/new\nwidget.example.com/old\n" {
		t.Errorf("what is left: %s", got)
	}
}
