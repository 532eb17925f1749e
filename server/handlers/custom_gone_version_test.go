package handlers_test

import "testing"

// Objects stored in a version that no longer exists remain readable, and can be changed and deleted. Server-side apply must compare them in that
// version if managers own fields in it, and fails as in kube-apiserver.
func TestVersionThatIsGone(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true), widgetVersion("v2", widgetSpec, false)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"replicas":1}`), code: 201},
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asJSONPatch, code: 200,
			body: `[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`},
		exchange{do: "PATCH " + definitions + "/widgets.example.com/status", header: asMergePatch, body: `{"status":{"storedVersions":["v2"]}}`, code: 200},
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asJSONPatch, body: `[{"op":"remove","path":"/spec/versions/0"}]`, code: 200},
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"apiVersion": "example.com/v2", "spec.size": "1"}},
		exchange{do: "PATCH " + widgetsAsV2 + "/a?fieldManager=m", header: asApply, code: 500,
			body: `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"size":2}}`,
			says: says{"message": "request to convert CR to an invalid group/version: example.com/v1"}},
		exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{"spec":{"size":3}}`, code: 200, says: says{"spec.size": "3"}},
		exchange{do: "DELETE " + widgetsAsV2 + "/a", code: 200})
}
