package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

// definitions is the path of CustomResourceDefinitions.
const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

const (
	widgets     = "/apis/example.com/v1/namespaces/test/widgets"
	widgetsAsV2 = "/apis/example.com/v2/namespaces/test/widgets"
)

// noScale is kube-apiserver's error for an unreadable Scale of a custom resource.
const noScale = `no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"`

// widgetSpec is the schema of the spec of a Widget.
const widgetSpec = `{"type":"object","required":["size"],"properties":{"size":{"type":"integer","minimum":1,"maximum":10},
	"color":{"type":"string","default":"red","enum":["red","green","blue"]},"replicas":{"type":"integer"},
	"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}},
	"x-kubernetes-validations":[{"rule":"self.size < 9 || self.color == 'red'","message":"large widgets are red"},
		{"rule":"self.size >= oldSelf.size","message":"widgets do not shrink"}]}`

// widgetVersion is a version of kind Widget with that schema.
func widgetVersion(name, spec string, storage bool) string {
	selectable := ""
	if strings.Contains(spec, `"color"`) {
		selectable = `"selectableFields":[{"jsonPath":".spec.color"}],`
	}
	return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas",
		"statusReplicasPath":".status.replicas"}},"additionalPrinterColumns":[{"name":"Size","type":"integer","jsonPath":".spec.size"}],
		%s"schema":{"openAPIV3Schema":{"type":"object","description":"A widget.","properties":{"spec":%s,
		"status":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}}}`, name, storage, selectable, spec)
}

func widgetDefinition(versions ...string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"widgets","kind":"Widget","shortNames":["wd"]},"versions":[` + strings.Join(versions, ",") + `]}}`
}

func widget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

// A custom resource is served by every server, with all its rules, once its definition has been acknowledged.
func TestCustomResourceByEveryVerb(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		table := says{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
		a.run(
			exchange{do: "GET " + widgets, code: 404},
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201, says: says{
				"status.acceptedNames.listKind": "WidgetList", "status.storedVersions": `["v1"]`,
				"status.conditions.#.type": `["NamesAccepted","Established"]`, "status.conditions.#.status": `["True","True"]`,
				"metadata.managedFields.#(subresource==status).manager": "kube-apiserver"}},
			exchange{do: "GET /apis/apiregistration.k8s.io/v1/apiservices/v1.example.com", code: 200, says: says{"status.conditions.0.status": "True",
				"spec.groupPriorityMinimum": "1000", "spec.versionPriority": "100"}},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":3,"junk":1}`), code: 201, keep: says{"rv": "metadata.resourceVersion"},
				answer: says{"Warning": `299 - "unknown field \"spec.junk\""`}, says: says{"spec": `{"color":"red","size":3}`, "metadata.generation": "1"}},
			exchange{do: "POST " + widgets + "?fieldValidation=Strict", body: widget("b", `{"size":3,"junk":1}`), code: 400,
				says: says{"message": `Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.junk"`}},
			exchange{do: "POST " + widgets, body: widget("b", `{"size":11}`), code: 422, says: says{"details.causes.0.field": "spec.size"}},
			exchange{do: "POST " + widgets, body: widget("b", `{"size":9,"color":"blue"}`), code: 422, says: says{"details.causes.0.message": "Invalid value: large widgets are red"}},
			exchange{do: "GET /apis/example.com/v1", code: 200, says: says{"resources.#.name": `["widgets","widgets/status","widgets/scale"]`}},
			exchange{do: "GET /openapi/v3", code: 200},
			exchange{do: "GET " + widgets, header: table, code: 200, says: says{"rows.0.cells": `["a",3]`}},
			exchange{do: "GET " + widgets + "?fieldSelector=spec.color%3Dred", code: 200, says: says{"items.#": "1", "metadata.continue": ""}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"size":2}}`, code: 422,
				says: says{"details.causes.0.message": "Invalid value: widgets do not shrink"}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"size":5,"bad":1},"status":{"replicas":7}}`, code: 200,
				answer: says{"Warning": `299 - "unknown field \"spec.bad\""`}, says: says{"spec.size": "5", "spec.bad": "-", "status": "-", "metadata.generation": "2"}},
			exchange{do: "GET " + widgets + "/a/scale", code: 500},
			exchange{do: "PUT " + widgets + "/a/scale", body: `{"apiVersion":"autoscaling/v1","kind":"Other"}`, code: 400, says: says{"message": noScale}},
			exchange{do: "PUT " + widgets + "/a/scale", body: `{"apiVersion":"apps/v1beta1","kind":"Scale"}`, code: 400, says: says{"message": noScale}},
			exchange{do: "PUT " + widgets + "/a/scale", body: `{"spec":{"replicas":"x"}}`, code: 400, says: says{"message": noScale}},
			exchange{do: "PUT " + widgets + "/a/scale", body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"test"},"spec":{"replicas":4}}`,
				code: 200, says: says{"spec.replicas": "4"}},
			exchange{do: "PATCH " + widgets + "/a/status", header: asMergePatch, body: `{"status":{"replicas":3},"spec":{"size":9}}`, code: 200,
				says: says{"spec.size": "5", "status.replicas": "3", "spec.replicas": "4"}},
			exchange{do: "GET " + widgets + "/a/scale", code: 200, says: says{"kind": "Scale", "spec.replicas": "4", "status.replicas": "3"}},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=me", header: asApply, body: `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"tags":["x"]}}`, code: 200,
				says: says{"spec.tags": `["x"]`}},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=me", header: asApply, body: `{"apiVersion":"example.com/v1","kind":"Widget","spec":{"junk":1}}`, code: 500,
				says: says{"message": "failed to create typed patch object (/; example.com/v1, Kind=Widget): .spec.junk: field not declared in schema"}},
			exchange{do: "POST " + widgets, header: says{"Content-Type": "application/vnd.kubernetes.protobuf"}, body: "k8s\x00", code: 415},
			exchange{do: "GET " + widgets, header: says{"Accept": "application/vnd.kubernetes.protobuf"}, code: 406},
			exchange{do: "DELETE " + widgets + "/a", code: 200, says: says{"kind": "Status", "details.name": "a"}},
			exchange{do: "GET " + widgets + "/a", code: 404, says: says{"message": `widgets.example.com "a" not found`}},
		)
	})
}

// Objects stored under an earlier schema are returned under the current one: pruned, and with its defaults, without a write.
func TestSchemaChangesWhatIsShown(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		loose := `{"type":"object","properties":{"size":{"type":"integer"},"old":{"type":"string"}}}`
		strict := `{"type":"object","properties":{"size":{"type":"integer"},"new":{"type":"string","default":"yes"}}}`
		a.run(
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", loose, true)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"old":"here"}`), code: 201, keep: says{"rv": "metadata.resourceVersion"}},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + widgetVersion("v1", strict, true) + `]}}`, code: 200},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"new":"yes","size":1}`, "metadata.resourceVersion": "{rv}"}},
			exchange{do: "GET " + widgets, code: 200, says: says{"items.0.spec": `{"new":"yes","size":1}`}},
			exchange{do: "POST " + widgets, body: widget("b", `{"size":1,"old":"here"}`), code: 201, says: says{"spec": `{"new":"yes","size":1}`}},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch,
				body: `{"spec":{"versions":[` + widgetVersion("v1", loose, false) + `,` + widgetVersion("v2", strict, true) + `]}}`, code: 200,
				says: says{"status.storedVersions": `["v1","v2"]`}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"old":"here","size":1}`, "apiVersion": "example.com/v1"}},
			exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{"size":1}`, "apiVersion": "example.com/v2", "metadata.resourceVersion": "{rv}"}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"size":2}}`, code: 200, says: says{"spec": `{"size":2}`}},
			exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{"new":"yes","size":2}`}},
		)
	})
}

// No object is stored under an outdated schema: writes go on while the definition alternates between two schemas, each of which forbids what the
// other requires, and each written object fits the definition of that moment.
func TestNoWriteBySchemaThatIsGone(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		schema := func(has, not string) string {
			return fmt.Sprintf(`{"type":"object","required":[%q],"properties":{%q:{"type":"integer"}}}`, has, has)
		}
		one, other := widgetVersion("v1", schema("one", "other"), true), widgetVersion("v1", schema("other", "one"), true)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(one), code: 201})
		const writers, changes = 4, 30
		stop, written := make(chan struct{}), make(chan struct{})
		var work sync.WaitGroup
		for w := range writers {
			work.Go(func() {
				for i := 0; ; i++ {
					code, answer := a.request("POST", widgets, widget(fmt.Sprintf("w%d-%d", w, i), `{"one":1,"other":2}`), nil)
					if code != http.StatusCreated {
						t.Errorf("%d %s", code, answer)
					}
					select {
					case written <- struct{}{}:
					case <-stop:
						return
					}
				}
			})
		}
		for i := range changes {
			versions := one
			if i%2 == 0 {
				versions = other
			}
			code, answer := a.request("PATCH", definitions+"/widgets.example.com", `{"spec":{"versions":[`+versions+`]}}`, asMergePatch)
			if code != http.StatusOK {
				t.Errorf("%d %s", code, answer)
			}
			<-written
		}
		close(stop)
		work.Wait()
		a.checkHistory(t)
	})
}

// checkHistory reads the log of changes, and checks each widget against the definition before it.
func (a *api) checkHistory(t *testing.T) {
	t.Helper()
	log := a.events(t, "customresourcedefinitions.apiextensions.k8s.io")
	definition, checked := 0, 0
	for _, e := range a.events(t, "widgets.example.com") {
		for definition+1 < len(log) && log[definition+1].Revision < e.Revision {
			definition++
		}
		const path = "spec.versions.0.schema.openAPIV3Schema.properties.spec.required.0"
		wanted := gjson.GetBytes(log[definition].Object.Data, path).Str
		spec := gjson.GetBytes(e.Object.Data, "spec")
		if len(spec.Map()) != 1 || !spec.Get(wanted).Exists() {
			t.Errorf("%s at %d has %s; the definition at %d wanted %s", e.Object.Name, e.Revision, spec.Raw, log[definition].Revision, wanted)
		}
		checked++
	}
	if checked < 30 {
		t.Errorf("only %d objects were written", checked)
	}
}

// events returns all changes of a resource.
func (a *api) events(t *testing.T, resource string) (all []*resources.Event) {
	t.Helper()
	w, err := a.store.Watch(t.Context(), resources.WatchOptions{Resource: resource, After: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for {
		events, _, err := w.Next(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			return all
		}
		all = append(all, events...)
	}
}

// request sends a request and returns the response.
func (a *api) request(method, path, body string, header says) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Definitions of a group cannot take each other's names, in any order and through any server.
func TestNamesOfDefinitions(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		const contenders = 8
		var work sync.WaitGroup
		for i := range contenders {
			work.Go(func() {
				body := strings.NewReplacer("widgets", fmt.Sprintf("widgets%d", i)).Replace(widgetDefinition(widgetVersion("v1", widgetSpec, true)))
				if code, answer := a.request("POST", definitions, body, nil); code != http.StatusCreated {
					t.Errorf("%d %s", code, answer)
				}
			})
		}
		work.Wait()
		_, answer := a.request("GET", definitions, "", nil)
		accepted := 0
		for _, d := range gjson.Get(answer, "items").Array() {
			c := d.Get(`status.conditions.#(type=="NamesAccepted")`)
			switch {
			case c.Get("status").Str == "True":
				accepted++
			case c.Get("reason").Str != "ListKindConflict" || c.Get("message").Str != `"WidgetList" is already in use`:
				t.Error(c.Raw)
			}
			if is, want := d.Get(`status.conditions.#(type=="Established").status`).Str, c.Get("status").Str; is != want {
				t.Errorf("%s is established: %s", d.Get("metadata.name").Str, is)
			}
		}
		if accepted != 1 {
			t.Errorf("%d definitions have the same kind: %s", accepted, answer)
		}
		// Built-in types own their names, too.
		body := strings.NewReplacer("example.com", "coordination.k8s.io", "widgets", "leases", "Widget", "Lease", `"wd"`, `"ls"`,
			`"metadata":{`, `"metadata":{"annotations":{"api-approved.kubernetes.io":"unapproved"},`).Replace(widgetDefinition(widgetVersion("v9", widgetSpec, true)))
		a.run(exchange{do: "POST " + definitions, body: body, code: 201, says: says{`status.conditions.#(type=="NamesAccepted").status`: "False"}})
	})
}

// Definitions cannot take over built-in types, the server's own types, or names that they were not given.
func TestDefinitionsOutOfReach(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		as := func(group, plural, kind string) string {
			return strings.NewReplacer("example.com", group, "widgets", plural, `"Widget"`, `"`+kind+`"`, `"wd"`, `"zz"`,
				`"metadata":{`, `"metadata":{"annotations":{"api-approved.kubernetes.io":"unapproved"},`).Replace(widgetDefinition(widgetVersion("v1", widgetSpec, true)))
		}
		refused := says{`status.conditions.#(type=="NamesAccepted").status`: "False", `status.conditions.#(type=="Established").status`: "False"}
		a.run(
			exchange{do: "POST /apis/networking.k8s.io/v1/namespaces/test/ingresses", body: `{"metadata":{"name":"kept"},"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":1}}}}}`, code: 201},
			exchange{do: "POST " + definitions, body: as("networking.k8s.io", "ingresses", "Other"), code: 201, says: refused},
			exchange{do: "POST " + definitions, body: as("resource.k8s.io", "devicetaintrules", "Rule"), code: 201, says: refused},
			exchange{do: "GET /apis/networking.k8s.io/v1/namespaces/test/ingresses/kept", code: 200},
			exchange{do: "POST " + definitions, body: as("rowlock.internal", "authorities", "Authority"), code: 403},
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("V1", widgetSpec, true)), code: 422, says: says{"details.kind": "CustomResourceDefinition"}},
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
			exchange{do: "PATCH " + definitions + "/widgets.example.com/status", header: asMergePatch, body: `{"status":{"acceptedNames":{"plural":"gadgets"},"conditions":[]}}`,
				code: 200, says: says{"status.acceptedNames.plural": "widgets", "status.conditions.#.status": `["True","True"]`}},
			exchange{do: "GET " + widgets, code: 200},
		)
	})
}

// An update on a server with an outdated definition loses no data, even if it would change nothing under that definition.
func TestUpdateOfWhatIsKnownElsewhere(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		narrow := `{"type":"object","properties":{"one":{"type":"integer"}}}`
		wide := `{"type":"object","properties":{"one":{"type":"integer"},"other":{"type":"integer"}}}`
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", narrow, true)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
			exchange{do: "GET " + widgets + "/a", code: 200}, exchange{do: "GET " + widgets + "/a", code: 200},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + widgetVersion("v1", wide, true) + `]}}`, code: 200},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"other":2}}`, code: 200, says: says{"spec": `{"one":1,"other":2}`}},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + widgetVersion("v1", narrow, true) + `]}}`, code: 200},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + widgetVersion("v1", wide, true) + `]}}`, code: 200},
			exchange{do: "PATCH " + widgets + "/a?dryRun=All", header: asMergePatch, body: `{"spec":{"other":3}}`, code: 200, says: says{"spec.other": "3"}},
			exchange{do: "POST " + widgets + "?dryRun=All", body: widget("b", `{"other":3}`), code: 201, says: says{"spec": `{"other":3}`}},
		)
	})
}

// Warnings of an attempt that is discarded because the definition has changed are not sent.
func TestWarningsOfALaterAttempt(t *testing.T) {
	a := newAPI(t)
	narrow := `{"type":"object","properties":{"one":{"type":"integer"}}}`
	wide := `{"type":"object","properties":{"one":{"type":"integer"},"other":{"type":"integer"}}}`
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", narrow, true)), code: 201})
	a.store.interrupt(func() {
		a.run(exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + widgetVersion("v1", wide, true) + `]}}`, code: 200})
	})
	a.run(exchange{do: "POST " + widgets, body: widget("a", `{"other":1,"third":1}`), code: 201, says: says{"spec": `{"other":1}`},
		answer: says{"Warning": `299 - "unknown field \"spec.third\""`}})
}

// Removing the last finalizer of an object succeeds, even if its definition is changed or deleted before the response.
func TestLastFinalizerOfATypeThatChanges(t *testing.T) {
	a := newAPI(t)
	schema := func(description string) string { return `{"type":"object","description":"` + description + `"}` }
	held := strings.Replace(widget("a", `{}`), `"metadata":{`, `"metadata":{"finalizers":["example.com/stay"],`, 1)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", schema("old"), true)), code: 201},
		exchange{do: "POST " + widgets, body: held, code: 201}, exchange{do: "DELETE " + widgets + "/a", code: 200})
	a.store.follow(func() {
		a.run(exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + widgetVersion("v1", schema("new"), true) + `]}}`, code: 200})
	})
	a.run(exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200},
		exchange{do: "GET " + widgets + "/a", code: 404})
}
