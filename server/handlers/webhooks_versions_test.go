package handlers_test

import "testing"

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
