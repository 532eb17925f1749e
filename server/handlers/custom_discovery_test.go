package handlers_test

import (
	"strings"
	"testing"
)

// asAggregated requests aggregated discovery.
var asAggregated = says{"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}

// Discovery lists no verbs to create or change objects of a terminating definition, yet clients can still change them.
func TestDiscoveryOfTerminatingDefinition(t *testing.T) {
	a := newAPI(t)
	const (
		all       = `["delete","deletecollection","get","list","patch","create","update","watch"]`
		remaining = `["delete","deletecollection","get","list","watch"]`
	)
	offers := func(verbs string) {
		t.Helper()
		a.run(exchange{do: "GET /apis/example.com/v1", code: 200, says: says{`resources.#(name=="widgets").verbs`: verbs,
			`resources.#(name=="widgets/status").verbs`: `["get","patch","update"]`, `resources.#(name=="widgets/scale").verbs`: `["get","patch","update"]`}},
			exchange{do: "GET /apis", header: asAggregated, code: 200, says: says{
				`items.#(metadata.name=="example.com").versions.0.resources.0.verbs`:                      verbs,
				`items.#(metadata.name=="example.com").versions.0.resources.0.subresources.#.verbs|@ugly`: `[["get","patch","update"],["get","patch","update"]]`}})
	}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201})
	offers(all)
	a.run(exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200})
	offers(remaining)
	a.run(exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"size":2}}`, code: 200, says: says{"spec.size": "2"}},
		exchange{do: "POST " + widgets, body: widget("b", `{"size":1}`), code: 403})
}

// The refusal of a create names the object as admission does: by the path, if that has a name.
func TestCreateOfTerminatingDefinition(t *testing.T) {
	a := newAPI(t)
	refused := func(name string) says {
		return says{"message": `widgets.example.com "` + name + `" is forbidden: create not allowed while custom resource definition is terminating`, "details.name": name}
	}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
		exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200},
		exchange{do: "POST " + widgets, body: widget("b", `{"size":1}`), code: 403, says: refused("b")},
		exchange{do: "POST " + widgets + "/c", body: widget("b", `{"size":1}`), code: 403, says: refused("c")},
		exchange{do: "PATCH " + widgets + "/d?fieldManager=me", header: asApply, body: widget("d", `{"size":1}`), code: 403, says: refused("d")})
}

// As in kube-apiserver, the list of groups sorts groups of equal priority by the name of their first APIService, and aggregated discovery by their
// own names.
func TestOrderOfDefinedGroups(t *testing.T) {
	a := newAPI(t)
	for group, versions := range map[string][]string{"a.example": {"v1alpha1"}, "b.example": {"v1"}, "c.example": {"v2"}, "d.example": {"v1beta1", "v1"}} {
		var all []string
		for i, v := range versions {
			all = append(all, widgetVersion(v, widgetSpec, i == 0))
		}
		a.run(exchange{do: "POST " + definitions, code: 201, body: strings.ReplaceAll(widgetDefinition(all...), "example.com", group)})
	}
	const defined = `|#(%"?.example")#`
	a.run(exchange{do: "GET /apis", code: 200, says: says{"groups.#.name" + defined: `["b.example","d.example","a.example","c.example"]`}},
		exchange{do: "GET /apis", header: asAggregated, code: 200, says: says{"items.#.metadata.name" + defined: `["a.example","b.example","c.example","d.example"]`}})
}

// Discovery has the hash of the storage version only while that is served, as in kube-apiserver.
func TestHashOfStorageVersionThatIsNotServed(t *testing.T) {
	a := newAPI(t)
	stored, other := widgetVersion("v1", widgetSpec, true), widgetVersion("v2", widgetSpec, false)
	hash := func(want string) {
		t.Helper()
		for _, sub := range []string{"widgets/status", "widgets/scale"} {
			a.run(exchange{do: "GET /apis/example.com/v2", code: 200, says: says{`resources.#(name=="` + sub + `").storageVersionHash`: "-"}})
		}
		a.run(exchange{do: "GET /apis/example.com/v2", code: 200, says: says{`resources.#(name=="widgets").storageVersionHash`: want}})
	}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(stored, other), code: 201},
		exchange{do: "GET /apis/example.com/v1", code: 200, keep: says{"hash": `resources.#(name=="widgets").storageVersionHash`}})
	hash("{hash}")
	a.run(withVersions(strings.Replace(stored, `"served":true`, `"served":false`, 1), other))
	hash("-")
	a.run(withVersions(stored, other))
	hash("{hash}")
}
