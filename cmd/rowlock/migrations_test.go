package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tidwall/gjson"
)

const (
	crds    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgets = "/apis/example.com/v2/namespaces/default/widgets"
)

func widgetVersions(stored string) (all string) {
	for _, v := range []string{"v1", "v2"} {
		all += fmt.Sprintf(`,{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`, v, v == stored)
	}
	return `[` + all[1:] + `]`
}

// send sends a JSON request, which has to succeed.
func send(t *testing.T, client kubernetes.Interface, verb, path, body string) string {
	t.Helper()
	r := client.Discovery().RESTClient().Verb(verb).AbsPath(path).Body([]byte(body)).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json")
	if verb == "PATCH" {
		r.SetHeader("Content-Type", string(types.MergePatchType))
	}
	answer, err := r.DoRaw(t.Context())
	if err != nil {
		t.Fatalf("%s %s: %v: %s", verb, path, err, answer)
	}
	return string(answer)
}

// The server carries out a StorageVersionMigration alone. Afterwards all objects are stored in the present version, the definition says
// so, and the earlier version can be removed. Of two migrations of a resource, the second one waits for the first.
func TestStorageVersionMigration(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir())
	client := p.client(t)
	send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v1")+`}}`)
	for i := range 40 {
		send(t, client, "POST", widgets, fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"w%d"},"spec":{"n":%d}}`, i, i))
	}
	before := send(t, client, "GET", widgets, "")
	changed := send(t, client, "PATCH", crds+"/widgets.example.com", `{"spec":{"versions":`+widgetVersions("v2")+`}}`)
	if got := gjson.Get(changed, "status.storedVersions").Raw; got != `["v1","v2"]` {
		t.Fatalf("storedVersions are %s", got)
	}
	migrations := client.StoragemigrationV1().StorageVersionMigrations()
	events, err := migrations.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	names := []string{"a", "b"}
	for _, name := range names {
		_, err := migrations.Create(t.Context(), &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "example.com", Resource: "widgets"}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	running, ended := map[string]bool{}, []string{}
	for len(ended) < len(names) {
		e := <-events.ResultChan()
		m, ok := e.Object.(*storagemigrationv1.StorageVersionMigration)
		if !ok {
			t.Fatalf("%v %v", e.Type, e.Object)
		}
		t.Log(m.Name, m.Status)
		running[m.Name] = meta.IsStatusConditionTrue(m.Status.Conditions, "Running")
		if running["a"] && running["b"] {
			t.Error("both run at the same time")
		}
		if meta.IsStatusConditionFalse(m.Status.Conditions, "Running") {
			ended = append(ended, m.Name)
			if !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || m.Status.ResourceVersion == "" {
				t.Errorf("%s ended with %+v", m.Name, m.Status)
			}
		}
	}
	definition := send(t, client, "GET", crds+"/widgets.example.com", "")
	condition := gjson.Get(definition, `status.conditions.#(type=="StorageMigrating")`)
	if condition.Get("status").Str != "False" || condition.Get("reason").Str != "MigrationSucceeded" || condition.Get("observedGeneration").Int() != 2 {
		t.Errorf("the definition has the condition %s", condition.Raw)
	}
	if got := gjson.Get(definition, "status.storedVersions").Raw; got != `["v2"]` {
		t.Errorf("storedVersions are %s", got)
	}
	owned := gjson.Get(definition, `metadata.managedFields.#(manager=="migration-runner-controller")#`)
	if got := owned.Get("#.operation").Raw + owned.Get("#.subresource").Raw; got != `["Apply"]["status"]` || !owned.Get(`0.fieldsV1.f:status.f:storedVersions`).Exists() {
		t.Errorf("the controller owns fields by %s", owned.Raw)
	}
	gone := gjson.Get(widgetVersions("v2"), "1").Raw
	send(t, client, "PATCH", crds+"/widgets.example.com", `{"spec":{"versions":[`+gone+`]}}`)
	after := send(t, client, "GET", widgets, "")
	for i, was := range gjson.Get(before, "items").Array() {
		is := gjson.Get(after, fmt.Sprintf("items.%d", i))
		if is.Get("spec").Raw != was.Get("spec").Raw || is.Get("metadata.resourceVersion").Int() <= was.Get("metadata.resourceVersion").Int() {
			t.Errorf("%s was not written again: %s", was.Raw, is.Raw)
		}
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}

// A migration ends at once when there is nothing to do, and when it is not possible. The messages are kube-controller-manager's.
func TestStorageVersionMigrationOfNothing(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir())
	client := p.client(t)
	// A definition that is being deleted, and held by an object.
	send(t, client, "POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":`+widgetVersions("v1")+`}}`)
	send(t, client, "POST", widgets, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"held","finalizers":["example.com/held"]}}`)
	send(t, client, "DELETE", crds+"/widgets.example.com", "")
	migrations := client.StoragemigrationV1().StorageVersionMigrations()
	events, err := migrations.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	cannot := func(resource string) string {
		return fmt.Sprintf("StorageVersionMigrationFailed: resource %q does not support discovery operations: [update patch list]", resource)
	}
	const succeeded = "StorageVersionMigrationSucceeded: Migration completed"
	want := map[string]string{
		"horizontalpodautoscalers.autoscaling":      succeeded,
		"pods.":                                     succeeded,
		"componentstatuses.":                        cannot("/v1, Resource=componentstatuses"),
		"subjectaccessreviews.authorization.k8s.io": cannot("authorization.k8s.io/v1, Resource=subjectaccessreviews"),
		"widgets.example.com":                       cannot("example.com/v2, Resource=widgets"),
	}
	for resource := range want {
		name, group, _ := strings.Cut(resource, ".")
		_, err := migrations.Create(t.Context(), &storagemigrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: name}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for late := time.After(2 * time.Minute); len(want) > 0; {
		select {
		case e := <-events.ResultChan():
			m, ok := e.Object.(*storagemigrationv1.StorageVersionMigration)
			if !ok {
				t.Fatalf("%v %v", e.Type, e.Object)
			}
			if !meta.IsStatusConditionFalse(m.Status.Conditions, "Running") {
				continue
			}
			resource := m.Spec.Resource.Resource + "." + m.Spec.Resource.Group
			if end := m.Status.Conditions[len(m.Status.Conditions)-1]; end.Reason+": "+end.Message != want[resource] {
				t.Errorf("%s ended with %+v", resource, m.Status)
			}
			delete(want, resource)
		case <-late:
			t.Fatalf("these have not ended: %v", want)
		}
	}
	if code := p.end(); code != 0 {
		t.Errorf("ended with %d", code)
	}
}
