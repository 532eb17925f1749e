package handlers_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

// Toys are a kind without a Go type that is added, changed and removed while a server runs (untypedtest).

type toyVersion = untypedtest.Version

var toyVersions = untypedtest.Versions()

// serveToys adds or changes the kind.
func (a *api) serveToys(versions ...toyVersion) {
	a.Helper()
	for _, registry := range a.registries {
		if err := untypedtest.Serve(registry, versions...); err != nil {
			a.Fatal(err)
		}
	}
}

// edit changes the types of all servers.
func (a *api) edit(change func(*resources.Edit)) {
	for _, registry := range a.registries {
		registry.Edit(change)
	}
}

func (a *api) stopServingToys() {
	for _, registry := range a.registries {
		registry.RemoveGroup(untypedtest.Group)
	}
}

const toys = "/apis/toys.example.org/v1/namespaces/test/toys"

const toysAsV2 = "/apis/toys.example.org/v2/namespaces/test/toys"

func toy(name, spec string) string {
	return `{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"` + name +
		`","annotations":{"resourceVersion":"0"},"labels":{"resourceVersion":"x"}},"spec":` + spec + `}`
}

// Every verb of an untyped kind, in both of its versions.
func TestToysByEveryVerb(t *testing.T) {
	onEveryDatabase(t, func(_ *testing.T, a *api) { a.toysByEveryVerb() })
}

func (a *api) toysByEveryVerb() {
	a.run(exchange{do: "GET " + toys, code: 404})
	a.serveToys(toyVersions...)
	a.run(
		exchange{do: "GET /apis/toys.example.org", code: 200, says: says{"versions.#.version": `["v2","v1"]`, "preferredVersion.version": "v2"}},
		exchange{do: "GET /apis/toys.example.org/v1", code: 200, says: says{"resources.#.name": `["toys","toys/status"]`, "resources.0.shortNames": `["ty"]`,
			"resources.0.categories": `["playthings"]`, "resources.0.verbs": `["delete","deletecollection","get","list","patch","create","update","watch"]`, "resources.0.singularName": "toy"}},
		exchange{do: "GET /openapi/v3", code: 200},
		exchange{do: "POST " + toys, body: toy("a", `{"color":"red"}`), code: 201, keep: says{"rv": "metadata.resourceVersion", "uid": "metadata.uid"},
			says: says{"spec": `{"color":"red","price":1}`, "metadata.generation": "1", "metadata.annotations.resourceVersion": "0",
				"metadata.managedFields.#": "1", "metadata.managedFields.0.apiVersion": "toys.example.org/v1"}},
		exchange{do: "POST " + toys, body: toy("a", `{}`), code: 409, says: says{"reason": "AlreadyExists", "message": `toys.toys.example.org "a" already exists`}},
		exchange{do: "POST " + toys, body: toy("b", `{"color":"blue","price":5}`), code: 201},
		exchange{do: "POST " + toys + "?dryRun=All", body: toy("c", `{}`), code: 201, says: says{"metadata.resourceVersion": "-", "metadata.name": "c"}},
		exchange{shows: "as YAML", do: "POST " + toys, header: asYAML, body: toy("y", `{"color":"green"}`), code: 201},
		exchange{do: "DELETE " + toys + "/y", code: 200, says: says{"kind": "Toy", "metadata.name": "y"}},
		exchange{do: "GET " + toys + "/a", code: 200, says: says{"metadata.resourceVersion": "{rv}", "apiVersion": "toys.example.org/v1"}},
		exchange{shows: "converted", do: "GET " + toysAsV2 + "/a", code: 200, says: says{"spec": `{"paint":"red","price":1}`, "apiVersion": "toys.example.org/v2",
			"metadata.resourceVersion": "{rv}"}, answer: says{"Warning": `299 - "toys.example.org/v2 Toy is in the making"`}},
		exchange{do: "GET " + toys, code: 200, says: says{"kind": "ToyBox", "items.#": "2", "items.0.kind": "Toy", "items.1.spec.color": "blue"}},
		exchange{do: "GET " + toysAsV2, code: 200, says: says{"kind": "ToyBox", "items.0.apiVersion": "toys.example.org/v2", "items.1.spec.paint": "blue"}},
		exchange{do: "GET " + toys + "?fieldSelector=spec.price%3D5", code: 200, says: says{"items.#.metadata.name": `["b"]`}},
		exchange{shows: "a field of another version", do: "GET " + toysAsV2 + "?fieldSelector=spec.paint%3Dblue", code: 200, says: says{"items.#.metadata.name": `["b"]`}},
		exchange{do: "GET " + toys + "?labelSelector=resourceVersion%3Dx&limit=1", code: 200, says: says{"items.#": "1", "metadata.remainingItemCount": "-"}},
		exchange{do: "GET " + toys + "?fieldSelector=spec.color%3Dred", code: 400, says: says{"message": "field label not supported: spec.color"}},
		exchange{do: "PUT " + toys + "/a", body: strings.Replace(toy("a", `{"color":"black"}`), `"name":"a"`, `"name":"a","resourceVersion":"{rv}"`, 1), code: 200,
			says: says{"spec.color": "black", "metadata.generation": "2"}, keep: says{"rv2": "metadata.resourceVersion"}},
		exchange{do: "PUT " + toys + "/a", body: strings.Replace(toy("a", `{"color":"white"}`), `"name":"a"`, `"name":"a","resourceVersion":"{rv}"`, 1), code: 409},
		exchange{do: "PATCH " + toys + "/a", header: asMergePatch, body: `{"spec":{"tags":["x"]}}`, code: 200, says: says{"spec.tags": `["x"]`}},
		exchange{do: "PATCH " + toysAsV2 + "/a", header: asJSONPatch, body: `[{"op":"replace","path":"/spec/paint","value":"gold"}]`, code: 200,
			says: says{"spec.paint": "gold", "metadata.managedFields.#(apiVersion==toys.example.org/v2).operation": "Update"}},
		exchange{do: "GET " + toys + "/a", code: 200, says: says{"spec.color": "gold"}},
		exchange{do: "PATCH " + toys + "/a", header: asStrategicPatch, body: `{}`, code: 415, says: says{"reason": "UnsupportedMediaType",
			"message": "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"}},
		exchange{do: "PATCH " + toys + "/a?fieldManager=me", header: asApply, body: `{"apiVersion":"toys.example.org/v1","kind":"Toy","spec":{"tags":["y"]}}`, code: 200,
			says: says{"spec.tags": `["x","y"]`}},
		exchange{do: "PATCH " + toys + "/a?fieldManager=other", header: asApply, body: `{"apiVersion":"toys.example.org/v1","kind":"Toy","spec":{"color":"grey"}}`, code: 409,
			says: says{"details.causes.0.message": `conflict with "test" using toys.example.org/v2`}},
		exchange{do: "PATCH " + toys + "/new?fieldManager=me", header: asApply, body: `{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"new"},"spec":{"price":2}}`, code: 201},
		exchange{do: "PATCH " + toys + "/a/status", header: asMergePatch, body: `{"status":{"sold":true},"spec":{"color":"none"}}`, code: 200,
			says: says{"status.sold": "true", "spec.color": "gold"}},
		exchange{do: "GET " + toys + "/a/scale", code: 404, says: says{"message": `toys.toys.example.org "a" not found`}},
		exchange{do: "DELETE " + toys + "/b", code: 200},
		exchange{do: "GET " + toys + "/b", code: 404, says: says{"message": `toys.toys.example.org "b" not found`}},
		exchange{do: "DELETE " + toys, code: 200, says: says{"kind": "ToyBox", "items.#": "2"}},
		exchange{do: "GET " + toys, code: 200, says: says{"items": "[]"}},
	)
	a.stopServingToys()
	a.run(exchange{do: "GET " + toys, code: 404})
}

// Every representation of an untyped kind.
func TestToysInEveryEncoding(t *testing.T) {
	onEveryDatabase(t, func(_ *testing.T, a *api) { a.toysInEveryEncoding() })
}

func (a *api) toysInEveryEncoding() {
	a.serveToys(toyVersions...)
	table := says{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
	partial := says{"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
	a.run(
		exchange{do: "POST " + toys, body: toy("a", `{"color":"red"}`), code: 201},
		exchange{do: "GET " + toys, header: table, code: 200, says: says{"columnDefinitions.#.name": `["Name","Color","Price"]`,
			"rows.0.cells": `["a","red",1]`, "rows.0.object.kind": "PartialObjectMetadata"}},
		exchange{do: "GET " + toysAsV2, header: table, code: 200, says: says{"columnDefinitions.#.name": `["Name","Paint"]`, "rows.0.cells": `["a","red"]`}},
		exchange{do: "GET " + toys, header: table, code: 200, says: says{"rows.0.cells": `["a","red",1]`}},
		exchange{do: "GET " + toys, header: partial, code: 200, says: says{"items.0.metadata.name": "a", "items.0.spec": "-"}},
		exchange{do: "GET " + toys, header: says{"Accept": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}, code: 200,
			answer: says{"Content-Type": "application/vnd.kubernetes.protobuf"}},
		exchange{shows: "no protobuf of the object", do: "GET " + toys + "/a", header: says{"Accept": "application/vnd.kubernetes.protobuf"}, code: 406},
		exchange{shows: "nor of a list", do: "GET " + toys, header: says{"Accept": "application/vnd.kubernetes.protobuf"}, code: 406},
		exchange{shows: "nor of an empty one", do: "GET " + toys + "?labelSelector=none", header: says{"Accept": "application/vnd.kubernetes.protobuf"}, code: 406},
	)
}

// A list has its keys in kube-apiserver's order for custom resources, and always a continue field, in each encoding, with and without fast paths.
func TestListsOfToys(t *testing.T) {
	a := newAPI(t)
	a.serveToys(toyVersions...)
	a.run(exchange{do: "GET " + toys, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	for _, on := range []bool{true, false} {
		back := fastpath.TurnAll(on)
		for media, want := range map[string]string{
			"application/json": `{"apiVersion":"toys.example.org/v1","items":[],"kind":"ToyBox","metadata":{"continue":"","resourceVersion":"{rv}"}}` + "\n",
			"application/yaml": "apiVersion: toys.example.org/v1\nitems: []\nkind: ToyBox\nmetadata:\n  continue: \"\"\n  resourceVersion: \"{rv}\"\n",
		} {
			if got := a.ask("GET", toys, media, "", "").Body.String(); got != a.fill(want) {
				t.Errorf("%s, fast paths on: %t: %s, want %s", media, on, got, a.fill(want))
			}
		}
		back()
	}
	a.run(exchange{do: "POST " + toys, body: toy("a", `{}`), code: 201}, exchange{do: "POST " + toys, body: toy("b", `{}`), code: 201},
		exchange{do: "GET " + toys + "?limit=1", code: 200, says: says{"@keys": `["apiVersion","items","kind","metadata"]`,
			"metadata|@keys": `["continue","remainingItemCount","resourceVersion"]`}},
		exchange{shows: "metadata alone", do: "GET " + toys, header: says{"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}, code: 200,
			says: says{"@keys": `["kind","apiVersion","metadata","items"]`, "metadata|@keys": `["resourceVersion"]`}})
}

// watchOf opens a watch; next returns its events one by one, and false at its end.
func watchOf(t *testing.T, client *http.Client, url string, header says) (next func() (gjson.Result, bool)) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("watch: %s", resp.Status)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (gjson.Result, bool) {
		if !lines.Scan() {
			return gjson.Result{}, false
		}
		return gjson.Parse(lines.Text()), true
	}
}

// A watch survives a change that does not affect how its version is rendered, and ends after one that does: with 410 if the version is still
// served, so that the client lists again.
func TestWatchOfToysThatChange(t *testing.T) {
	onEveryDatabase(t, watchOfToysThatChange)
}

func watchOfToysThatChange(t *testing.T, a *api) {
	s := a.listen()
	a.serveToys(toyVersions...)
	one, two := watchOf(t, s.Client(), s.URL+toys+"?watch=1", nil), watchOf(t, s.Client(), s.URL+toysAsV2+"?watch=1", nil)
	table := watchOf(t, s.Client(), s.URL+toys+"?watch=1", says{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
	painted := watchOf(t, s.Client(), s.URL+toysAsV2+"?watch=1&fieldSelector=spec.paint%3Dgold", nil)
	expect := func(next func() (gjson.Result, bool), typ, path, value string) {
		t.Helper()
		e, ok := next()
		if !ok || e.Get("type").Str != typ || e.Get(path).String() != value {
			t.Fatalf("got %v %s, want %s with %s = %s", ok, e.Raw, typ, path, value)
		}
	}
	a.run(exchange{do: "POST " + toys, body: toy("a", `{"color":"red"}`), code: 201})
	expect(one, "ADDED", "object.spec.color", "red")
	expect(two, "ADDED", "object.spec.paint", "red")
	expect(table, "ADDED", "object.columnDefinitions.#.name", `["Name","Color","Price"]`)

	columns := toyVersions[0]
	columns.Columns = columns.Columns[:1]
	a.serveToys(columns)
	a.run(exchange{do: "POST " + toys, body: toy("b", `{"color":"blue"}`), code: 201})
	expect(one, "ADDED", "object.spec.color", "blue")
	expect(two, "ADDED", "object.spec.paint", "blue")
	rows := func(typ, columns, cells string) {
		t.Helper()
		e, ok := table()
		if !ok || e.Get("type").Str != typ || e.Get("object.columnDefinitions.#.name").Raw != columns || e.Get("object.rows.0.cells").Raw != cells {
			t.Errorf("got %v %s, want %s with columns %s and cells %s", ok, e.Raw, typ, columns, cells)
		}
	}
	rows("ADDED", `["Name","Color"]`, `["b","blue"]`)
	a.run(exchange{do: "PATCH " + toys + "/b", header: asMergePatch, body: `{"spec":{"color":"gold"}}`, code: 200})
	rows("MODIFIED", ``, `["b","gold"]`)
	expect(one, "MODIFIED", "object.spec.color", "gold")
	expect(two, "MODIFIED", "object.spec.paint", "gold")
	expect(painted, "ADDED", "object.spec.paint", "gold")

	changed := toyVersions[1]
	changed.Form = "2"
	a.serveToys(changed)
	expect(two, "ERROR", "object.code", "410")
	if e, ok := two(); ok {
		t.Errorf("the watch goes on after its end: %s", e.Raw)
	}
	a.run(exchange{do: "DELETE " + toys + "/a", code: 200})
	expect(one, "DELETED", "object.metadata.name", "a")
	a.stopServingToys()
	if e, ok := one(); ok {
		t.Errorf("the watch of what is no longer served goes on: %s", e.Raw)
	}
}

// tolerate sends a request that may have several responses. It returns the response.
func (a *api) tolerate(method, path, body string, header says, codes ...int) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(a.Context())
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	if !slices.Contains(codes, w.Code) {
		a.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return w
}
