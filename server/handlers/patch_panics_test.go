package handlers_test

import "testing"

// Patches on which the library panics are rejected like others that cannot be applied; kube-apiserver closes the connection.
func TestPatchesThatCannotBeApplied(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","finalizers":["example.com/a"]},"data":{"k":"v"}}`, code: 201},
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201})
	for _, patch := range []string{`[{"op":"add","path":""}]`, `[{"op":"test","path":""}]`, `[{"op":"replace","path":""}]`,
		`[{"op":"add","path":"/list","value":[null]},{"op":"test","path":"/list","value":["a"]}]`} {
		for _, path := range []string{configMaps, widgets} {
			a.run(exchange{shows: patch, do: "PATCH " + path + "/a", header: asJSONPatch, body: patch, code: 422,
				says: says{"message": "the server rejected our request due to an error in our request", "details": "{}"}})
		}
	}
	a.run(exchange{shows: "null in what is tested", do: "PATCH " + configMaps + "/a", header: asJSONPatch,
		body: `[{"op":"test","path":"/metadata/finalizers","value":[null]}]`, code: 422})
}
