package handlers_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// imported replaces text in the stored definition of widgets: the result is as a definition of an earlier release, which no client can write.
func (a *api) imported(old, replacement string) {
	a.Helper()
	key := resources.Key{Resource: "customresourcedefinitions.apiextensions.k8s.io", Name: "widgets.example.com"}
	o, err := a.store.Get(a.Context(), key, resources.At{Match: resources.MostRecent})
	if err != nil {
		a.Fatal(err)
	}
	data := strings.Replace(string(o.Data), old, replacement, 1)
	start, end, ok := resources.RevisionSpan([]byte(data))
	if !ok || data == string(o.Data) {
		a.Fatalf("%q is not in %s", old, o.Data)
	}
	draft := resources.Draft{Data: []byte(data), RevisionStart: start, RevisionEnd: end, Labels: o.Labels}
	if _, err := a.store.Commit(a.Context(), resources.Write{Op: resources.Update, Key: key, From: o.Revision, Draft: draft}); err != nil {
		a.Fatal(err)
	}
}

// Objects of an imported definition with preserveUnknownFields keep the fields that its schema does not have, through every write, until the
// definition prunes.
func TestPreserveUnknownFields(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		const schema = `{"type":"object","properties":{"size":{"type":"integer"},"template":{"type":"object","x-kubernetes-embedded-resource":true,
			"x-kubernetes-preserve-unknown-fields":true}}}`
		const definition = definitions + "/widgets.example.com"
		v1, v2 := widgetVersion("v1", schema, true), widgetVersion("v2", schema, false)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(v1, v2), code: 201})
		a.imported(`"scope":`, `"preserveUnknownFields":true,"scope":`)
		const whole = `{"null":null,"other":{"a":[1]},"size":1}`
		a.run(exchange{do: "GET " + widgets, code: 200}, exchange{do: "GET " + widgets, code: 200},
			exchange{do: "POST " + widgets + "?fieldValidation=Strict", body: widget("a", whole), code: 201, says: says{"spec": whole}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"more":2}}`, code: 200, says: says{"spec.more": "2", "spec.other": `{"a":[1]}`}},
			exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asJSONPatch, body: `[{"op":"remove","path":"/spec/more"}]`, code: 200, says: says{"spec": whole}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": whole}},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=m", header: asApply, body: widget("b", `{"other":{"a":1},"size":1}`), code: 201,
				says: says{"spec": `{"other":{"a":1},"size":1}`, "metadata.managedFields.0.fieldsV1": `{"f:spec":{"f:other":{".":{},"f:a":{}},"f:size":{}}}`}},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=m", header: asApply, body: widget("b", `{"other":{"b":1},"size":1}`), code: 200,
				says: says{"spec": `{"other":{"b":1},"size":1}`}},
			exchange{do: "POST " + widgets, body: widget("c", `{"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":1}}}`), code: 400},
			exchange{do: "POST " + widgets, body: widget("c", `{"size":"one","other":1}`), code: 422},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200,
				says: says{"spec.preserveUnknownFields": "true", `status.conditions.#(type=="NonStructuralSchema").message`: "spec.preserveUnknownFields: Invalid value: true: must be false"}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": whole}},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"spec":{"preserveUnknownFields":false}}`, code: 200,
				says: says{"spec.preserveUnknownFields": "-", `status.conditions.#(type=="NonStructuralSchema").reason`: "-"}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"size":1}`}},
			exchange{do: "GET " + widgetsAsV2 + "/b", code: 200, says: says{"spec": `{"size":1}`}},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"spec":{"preserveUnknownFields":true}}`, code: 422})
	})
}
