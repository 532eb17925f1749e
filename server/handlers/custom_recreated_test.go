package handlers_test

import (
	"strings"
	"testing"
)

// A list can continue, and a watch can begin, at a revision at which objects of an earlier definition had another kind.
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
		exchange{do: "GET " + widgets + "?watch=1&timeoutSeconds=1&resourceVersion={before}", code: 200, says: says{"type": "DELETED", "object.kind": "Widget"}},
	)
}
