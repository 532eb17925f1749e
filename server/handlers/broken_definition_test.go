package handlers_test

import (
	"strings"
	"testing"
)

// Resources of a definition that has its names but cannot be served get an error, as in kube-apiserver, and not a 404.
func TestDefinitionThatCannotBeServed(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	whole := hook.definition("v1")
	_, after, _ := strings.Cut(whole, `"caBundle":"`)
	bundle, _, _ := strings.Cut(after, `"`)
	const unresolved = "Internal error occurred: error resolving resource"
	const across, inNoNamespace, unserved = "/apis/example.com/v1/widgets", "/apis/example.com/v1/widgets/a", "/apis/example.com/v3/namespaces/default/widgets"
	a.run(
		exchange{do: "POST " + definitions, body: strings.Replace(whole, bundle, "YmFk", 1), code: 201,
			says: says{`status.conditions.#(type=="Established").reason`: "InvalidCABundle"}},
		exchange{do: "GET " + widgets, code: 500, says: says{"message": unresolved, "reason": "InternalError"}},
		exchange{do: "GET " + widgetsAsV2 + "/a/status", code: 500, says: says{"message": unresolved}},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 500, says: says{"message": unresolved}},
		exchange{do: "GET " + across, code: 500, says: says{"message": unresolved}},
		exchange{do: "GET " + inNoNamespace, code: 404},
		exchange{do: "GET " + unserved, code: 404},
		exchange{do: "GET /apis/example.com/v1", code: 404},
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: whole, code: 200,
			says: says{`status.conditions.#(type=="Established").status`: "True"}},
		exchange{do: "GET " + widgets, code: 200},
		// The resource of a definition without accepted names is not found.
		exchange{do: "POST " + definitions, code: 201, body: strings.NewReplacer("widgets", "gadgets").Replace(whole)},
		exchange{do: "GET " + strings.Replace(widgets, "widgets", "gadgets", 1), code: 404},
	)
}

// A caBundle of white space, which some tools write until another one injects the real one, keeps a definition out of discovery and OpenAPI. Its
// resources are served nevertheless, and the webhook is called with the roots of the system, as in kube-apiserver.
func TestDefinitionThatAwaitsItsAuthority(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		hook := newConverter(t)
		whole := hook.definition("v1")
		_, after, _ := strings.Cut(whole, `"caBundle":"`)
		bundle, _, _ := strings.Cut(after, `"`)
		hidden := []exchange{
			{do: "GET /apis/example.com/v1", code: 404},
			{do: "GET /openapi/v3/apis/example.com/v1", code: 404},
			{do: "GET /apis", header: asAggregated, code: 200, says: says{`items.#(metadata.name=="example.com")`: "-"}},
		}
		a.run(exchange{do: "POST " + definitions, body: strings.Replace(whole, bundle, "Cg==", 1), code: 201,
			says: says{`status.conditions.#(type=="Established").status`: "False", `status.conditions.#(type=="Established").reason`: "InvalidCABundle"}})
		a.run(hidden...)
		a.run(
			exchange{do: "GET " + widgets, code: 200},
			exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=me", header: asApply, body: widget("b", `{"one":2}`), code: 201},
			exchange{do: "GET /apis/example.com/v1/widgets", code: 200, says: says{"items.#.metadata.name": `["a","b"]`}},
			exchange{do: "GET " + widgetsAsV2 + "/a", code: 500}, // the system does not know the webhook's authority
		)
		a.watch(a.listen(), widgets, nil).expect("ADDED a", "ADDED b")
		a.run(hidden...)
		a.run(
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, code: 200,
				body: `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"` + bundle + `"}}}}}`, says: says{`status.conditions.#(type=="Established").status`: "True"}},
			exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec.other": "1"}},
			exchange{do: "GET /apis/example.com/v1", code: 200, says: says{`resources.#(name=="widgets").kind`: "Widget"}},
			exchange{do: "GET /openapi/v3/apis/example.com/v1", code: 200},
			exchange{do: "GET /apis", header: asAggregated, code: 200, says: says{`items.#(metadata.name=="example.com").versions.#.version`: `["v2","v1"]`}},
		)
	})
}
