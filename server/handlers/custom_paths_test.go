package handlers_test

import (
	"strings"
	"testing"
)

// As in kube-apiserver, path elements after a subresource of a custom resource are ignored, whatever the method. For built-in types they are not.
func TestPathsBelowSubresources(t *testing.T) {
	a := newAPI(t)
	beyond := widgets + "/a/status/x"
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"replicas":2}`), code: 201},
		exchange{do: "PATCH " + beyond, header: asMergePatch, body: `{"spec":{"size":3},"status":{"replicas":5}}`, code: 200},
		exchange{do: "GET " + beyond, code: 200, says: says{"kind": "Widget", "spec.size": "1", "status.replicas": "5"}},
		exchange{do: "GET " + beyond + "/y/z", code: 200, says: says{"kind": "Widget"}},
		exchange{do: "GET " + widgets + "/a/scale/x", code: 200, says: says{"kind": "Scale", "spec.replicas": "2", "status.replicas": "5"}},
		exchange{do: "DELETE " + beyond, code: 405, says: says{"message": `delete is not supported on resources of kind "widgets.example.com"`}},
		exchange{do: "GET " + widgets + "/b/status/x", code: 404, says: says{"message": `widgets.example.com "b" not found`}},
		exchange{shows: "no subresource", do: "GET " + widgets + "/a/other/x", code: 404, says: says{"message": `widgets.example.com "a" not found`}},
		exchange{shows: "built in", do: "GET /api/v1/namespaces/test/configmaps/a/status/x", code: 404, says: says{"message": "the server could not find the requested resource"}},
		exchange{shows: "still there", do: "GET " + widgets + "/a", code: 200})
}

// The resource list of a version answers any method if all its types are custom resources, and otherwise only GET.
func TestMethodsOfDiscovery(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201})
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		a.run(exchange{do: method + " /apis/example.com/v1", body: "{}", code: 200, says: says{"kind": "APIResourceList", "resources.0.name": "widgets"}},
			exchange{do: method + " /apis/example.com/v2", body: "{}", code: 404})
		if method != "GET" {
			a.run(exchange{do: method + " /apis/apps/v1", body: "{}", code: 405})
		}
	}
	a.run(exchange{do: "HEAD /apis/example.com/v1", code: 200}, exchange{do: "HEAD /apis/apps/v1", code: 405})
}

// Below /watch/ a custom resource is watched with any method: kube-apiserver checks only the verb.
func TestWatchOfCustomResourceByAnyMethod(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201})
	const below = "/apis/example.com/v1/watch/namespaces/test/widgets"
	for _, method := range []string{"POST", "DELETE", "OPTIONS"} {
		a.run(exchange{do: method + " " + below + "?timeoutSeconds=1", code: 200, says: says{"type": "ADDED", "object.metadata.name": "a"}})
	}
	a.run(exchange{do: "HEAD " + widgets + "?watch=1&timeoutSeconds=1", code: 200},
		exchange{do: "POST /api/v1/watch/namespaces/test/configmaps", code: 405})
}

// Cluster-scoped objects cannot be selected by namespace.
func TestSelectorsOfCustomResourcesWithoutNamespace(t *testing.T) {
	a := newAPI(t)
	const selected = "?fieldSelector=metadata.namespace%3Dtest"
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
		exchange{do: "GET /apis/example.com/v1/widgets" + selected, code: 200, says: says{"items.#": "1"}},
		exchange{do: "POST " + definitions, code: 201, body: strings.NewReplacer(`"Namespaced"`, `"Cluster"`, "widgets", "gadgets", "Widget", "Gadget", `"widget"`, `"gadget"`, `["wd"]`, `["gd"]`).Replace(
			widgetDefinition(widgetVersion("v1", widgetSpec, true)))})
	for _, q := range []string{selected, selected + "&watch=1", "?fieldSelector=metadata.namespace%3D"} {
		a.run(exchange{do: "GET /apis/example.com/v1/gadgets" + q, code: 400, says: says{"reason": "BadRequest", "message": "field label not supported: metadata.namespace"}})
	}
	a.run(exchange{do: "GET /apis/example.com/v1/gadgets?fieldSelector=metadata.name%3Da", code: 200})
}

// For a patch without a name, the kind of patch is checked first, as in kube-apiserver.
func TestPatchWithoutName(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "PATCH " + widgets, header: asMergePatch, body: "{}", code: 400, says: says{"message": "name must be provided"}},
		exchange{do: "PATCH " + widgets, header: says{"Content-Type": "application/strategic-merge-patch+json"}, body: "{}", code: 415},
		exchange{do: "PATCH " + widgets, body: "{}", code: 415, says: says{"message": "the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"}})
}
