package handlers_test

import (
	"strings"
	"testing"
)

// A definition whose webhook nobody could ask, for its authority is no certificate, is served when that is mended.
func TestInvalidAuthorityOfConversion(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		established := func(status, reason string) says {
			return says{`status.conditions.#(type=="Established").status`: status, `status.conditions.#(type=="Established").reason`: reason}
		}
		a.run(
			exchange{do: "POST " + definitions, body: strings.Replace(widgetDefinition(widgetVersion("v1", widgetSpec, true)), `"versions"`,
				`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://hook.invalid","caBundle":"Cg=="}}},"versions"`, 1),
				code: 201, says: established("False", "InvalidCABundle")},
			exchange{do: "GET " + widgets, code: 404},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`,
				code: 200, says: established("False", "InvalidCABundle")},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch,
				body: `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`, code: 200, says: established("True", "InitialNamesAccepted")},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
		)
	})
}

// A null where none is allowed is dropped from what is created and patched, and refused in what is applied: an applier who wants
// a field to go leaves it out.
func TestApplyOfNull(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		a.run(
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", `{"type":"object","properties":{"plain":{"type":"object"},
				"free":{"type":"object","nullable":true},"filled":{"type":"string","default":"x"}}}`, true)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"plain":null,"free":null,"filled":null}`), code: 201, says: says{"spec": `{"filled":"x","free":null}`}},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=me&force=true", header: asApply, body: widget("a", `{"free":null,"filled":null}`), code: 200,
				says: says{"spec": `{"filled":"x","free":null}`}},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=me&force=true", header: asApply, body: widget("a", `{"plain":null}`), code: 422,
				says: says{"message": `Widget.example.com "a" is invalid: spec.plain: Invalid value: "null": spec.plain in body must be of type object: "null"`}},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=me", header: asApply, body: widget("b", `{"plain":null}`), code: 422},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"plain":{}}}`, code: 200, says: says{"spec.plain": "{}"}},
			exchange{do: "PATCH " + widgets + "/a", header: asJSONPatch, body: `[{"op":"replace","path":"/spec/plain","value":null}]`, code: 200, says: says{"spec.plain": "-"}},
		)
	})
}
