package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A list can continue at a revision at which objects of an earlier definition had another kind. No watch begins there, as in kube-apiserver.
func TestHistoryOfAnotherKind(t *testing.T) {
	a := newAPI(t)
	a.work()
	body := widgetDefinition(widgetVersion("v1", `{"type":"object","properties":{"one":{"type":"integer"}}}`, true))
	body2 := strings.Replace(body, `"one":{"type":"integer"}`, `"one":{"type":"integer"},"two":{"type":"integer","default":7}`, 1)
	other := strings.NewReplacer(`"Widget"`, `"Gizmo"`, `"widget"`, `"gizmo"`, `"WidgetList"`, `"GizmoList"`).Replace(body2)
	a.run(
		exchange{do: "POST " + definitions, body: body, code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
		exchange{do: "POST " + widgets, body: widget("b", `{"one":1}`), code: 201},
		exchange{do: "GET " + widgets + "?limit=1", code: 200, keep: says{"continue": "metadata.continue", "before": "metadata.resourceVersion"}},
		exchange{do: "DELETE " + widgets, code: 200},
		exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200})
	a.until("customresourcedefinitions.apiextensions.k8s.io", "the definition goes", func() bool {
		code, _ := a.request("GET", definitions+"/widgets.example.com", "", nil)
		return code == 404
	})
	a.run(
		exchange{do: "POST " + definitions, body: other, code: 201},
		exchange{do: "POST " + widgets, body: strings.Replace(widget("b", `{"one":2}`), "Widget", "Gizmo", 1), code: 201},
		exchange{do: "GET " + widgets + "?limit=1&continue={continue}", code: 200, says: says{"items.#": "1", "items.0.kind": "Widget", "items.0.spec": `{"one":1}`}},
		exchange{do: "GET " + widgets + "?watch=1&timeoutSeconds=1&resourceVersion={before}", code: 200, says: says{"type": "ERROR", "object.reason": "Expired"}},
	)
}

// Objects of an earlier definition, whose finalizer was removed, do not come back with a definition that gets their name only when another one
// gives it up. There are more of them than one transaction removes.
func TestLeftObjectsOfNameThatBecomesFree(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		a.work()
		const definition, other = definitions + "/widgets.example.com", definitions + "/gadgets.example.com"
		body := widgetDefinition(widgetVersion("v1", `{"type":"object","properties":{"one":{"type":"integer"}}}`, true))
		accepted := func(path, names string) {
			t.Helper()
			a.until("customresourcedefinitions.apiextensions.k8s.io", "the names are accepted", func() bool {
				_, answer := a.request("GET", path, "", nil)
				return gjson.Get(answer, "status.acceptedNames").Raw == names
			})
		}
		a.run(exchange{do: "POST " + definitions, body: body, code: 201})
		for i := range 501 {
			a.run(exchange{do: "POST " + widgets, body: strings.Replace(widget(fmt.Sprint("w", i), `{"one":1}`), `"metadata":{`, `"metadata":{"finalizers":["example.com/f"],`, 1), code: 201})
		}
		a.run(exchange{do: "POST " + definitions, code: 201, says: says{`status.conditions.#(type=="NamesAccepted").reason`: "ShortNamesConflict"},
			body: strings.NewReplacer(`"name":"widgets.`, `"name":"gadgets.`, `"widgets"`, `"gadgets"`, `"Widget"`, `"Gadget"`, `"wd"`, `"widgets"`).Replace(body)},
			exchange{do: "DELETE " + definition, code: 200},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200})
		accepted(other, `{"plural":"gadgets","singular":"gadget","shortNames":["widgets"],"kind":"Gadget","listKind":"GadgetList"}`)
		a.run(exchange{do: "POST " + definitions, body: body, code: 201, says: says{`status.conditions.#(type=="NamesAccepted").reason`: "PluralConflict"}},
			exchange{do: "DELETE " + other, code: 200})
		accepted(definition, `{"plural":"widgets","singular":"widget","shortNames":["wd"],"kind":"Widget","listKind":"WidgetList"}`)
		a.run(exchange{do: "GET " + widgets, code: 200, says: says{"items": "[]"}})
	})
}
