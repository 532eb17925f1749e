package handlers_test

import (
	"slices"
	"strings"
	"testing"
)

// As in kube-apiserver, a webhook that requires custom resources in another version than the request's gets all of their fields: those that the
// version does not have, or that must not be null in it, are neither dropped for the webhook nor lost on the way back.
func TestWebhooksOfOlderVersions(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	const older = `{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"}}}}`
	const newer = `{"type":"object","properties":{"list":{"type":"array","nullable":true,"items":{"type":"string"}},"made":{"type":"string","default":"d"}}}`
	v.patches("/mutate", `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}},{"op":"add","path":"/spec/nobodys","value":1}]`)
	has := says{"metadata.labels.a": "b", "spec.made": "here", "spec.list": "", "spec.nobodys": "-"}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", older, false), widgetVersion("v2", newer, true)), code: 201},
		exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("example.com", "v1", "widgets"), ""))},
		exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/validate", ruleFor("example.com", "v1", "widgets"), ""))},
		exchange{do: "POST " + widgetsAsV2, body: `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"},"spec":{"list":null,"made":"here"}}`, code: 201, says: has},
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: has})
	for _, asked := range v.take() {
		if o := asked.request.Get("object"); o.Get("apiVersion").Str != "example.com/v1" || o.Get("spec.made").Str != "here" || o.Get("spec.list").Raw != "null" {
			t.Errorf("%s is shown %s", asked.path, o.Raw)
		}
	}
	v.patches("/mutate", `[{"op":"replace","path":"/kind","value":"Gadget"}]`)
	a.run(exchange{do: "POST " + widgetsAsV2, body: `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"b"},"spec":{}}`, code: 422,
		says: says{"message": `Gadget.example.com "b" is invalid: kind: Invalid value: "Gadget": must be Widget`}})
	// A condition makes admission look at the object again after the patch.
	a.run(exchange{do: "PATCH " + mutatingConfigurations + "/m", header: asMergePatch, code: 200,
		body: `{"webhooks":[` + v.webhook("/mutate", ruleFor("example.com", "v2", "widgets"), `"matchConditions":[{"name":"all","expression":"true"}]`) + `]}`},
		exchange{do: "POST " + widgetsAsV2, body: `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"b"},"spec":{}}`, code: 422,
			says: says{"message": `Gadget.example.com "b" is invalid: kind: Invalid value: "Gadget": must be Widget`}})
}

// A webhook or a policy for a version that is no longer served is still called for the others, with objects in that version, as in kube-apiserver.
// If its rules name several versions, it gets the first of these in the definition.
func TestWebhooksOfUnservedVersion(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		v := newReviewer(t)
		const spec = `{"type":"object","properties":{"size":{"type":"integer"},"replicas":{"type":"integer"}}}`
		unserved := func(name string) string {
			return strings.Replace(widgetVersion(name, spec, false), `"served":true`, `"served":false`, 1)
		}
		inEither := strings.Replace(ruleFor("example.com", "v1beta1", "widgets"), `"v1beta1"`, `"v1beta1","v1"`, 1)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(unserved("v1"), unserved("v1beta1"), widgetVersion("v2", spec, true)), code: 201},
			exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("example.com", "v1beta1", "widgets"), ""))},
			exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/validate", inEither, ""),
				v.webhook("/scale", ruleFor("example.com", "v1", "widgets/scale"), ""), v.webhook("/status", ruleFor("example.com", "v1", "widgets/status"), ""),
				v.webhook("/exact", ruleFor("example.com", "v1", "widgets"), `"matchPolicy":"Exact"`))},
			exchange{do: "POST " + validatingPolicies, code: 201, body: strings.Replace(policy("p", "example.com", "widgets",
				`"validations":[{"expression":"object.apiVersion == 'example.com/v1' && object.spec.size < 5"}]`), `"*"`, `"v1"`, 1)},
			exchange{do: "POST " + validatingBindings, code: 201, body: binding("b", "p", `,"validationActions":["Deny"]`)})
		v.patches("/mutate", `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`)
		wants := func(what string, want ...string) {
			t.Helper()
			var got []string
			for _, asked := range v.take() {
				got = append(got, asked.path+" "+asked.request.Get("kind.version").Str+" "+asked.request.Get("object.apiVersion").Str+" "+asked.request.Get("requestKind.version").Str)
			}
			if got = slices.Compact(got); !slices.Equal(got, want) { // a server that did not have the latest object asks again
				t.Errorf("%s: the webhooks are asked %q, want %q", what, got, want)
			}
		}
		a.run(exchange{do: "POST " + widgetsAsV2, body: widgetAsV2("a", `{"size":2}`), code: 201, says: says{"apiVersion": "example.com/v2", "metadata.labels.a": "b"}})
		wants("create", "/mutate v1beta1 example.com/v1beta1 v2", "/validate v1 example.com/v1 v2")
		a.run(exchange{do: "PATCH " + widgetsAsV2 + "/a/scale", header: asMergePatch, body: `{"spec":{"replicas":3}}`, code: 200})
		wants("scale", "/scale v1 autoscaling/v1 v1")
		a.run(exchange{do: "PATCH " + widgetsAsV2 + "/a/status", header: asMergePatch, body: `{"status":{"replicas":3}}`, code: 200})
		wants("status", "/status v1 example.com/v1 v2")
		a.run(exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{"spec":{"size":6}}`, code: 422})
	})
}
