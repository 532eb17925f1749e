package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// podsWithin is the schema of a spec with an embedded resource.
const podsWithin = `{"type":"object","properties":{"size":{"type":"integer"},
	"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`

// with is a widget with additional metadata.
func with(name, metadata, spec string) string {
	return strings.Replace(widget(name, spec), `"metadata":{`, `"metadata":{`+metadata+`,`, 1)
}

// Server-side apply stores the same as other writes: empty members of metadata, and of embedded resources' metadata, are dropped, so that later
// writes see the same objects as in kube-apiserver.
func TestAppliedMetadata(t *testing.T) {
	test := func(t *testing.T, a *api) {
		a.TB = t
		const nothing = `"labels":null,"annotations":{},"finalizers":null,"ownerReferences":null,"generateName":null,"deletionTimestamp":null,"deletionGracePeriodSeconds":null`
		const spec = `{"size":1,"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":null,"labels":{},"bogus":1}}}`
		left := says{"metadata.labels": "-", "metadata.annotations": "-", "metadata.finalizers": "-", "metadata.ownerReferences": "-", "metadata.generateName": "-",
			"metadata.deletionTimestamp": "-", "metadata.deletionGracePeriodSeconds": "-", "metadata.generation": "1", "spec.pod": `{"apiVersion":"v1","kind":"Pod","metadata":{}}`}
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", podsWithin, true)), code: 201},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=m", header: asApply, body: with("a", nothing, strings.Replace(spec, `,"bogus":1`, "", 1)), code: 201, says: left},
			exchange{do: "GET " + widgets + "/a", code: 200, says: left},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=m", header: asApply, body: with("b", `"labels":{"a":null},"ownerReferences":[
				{"apiVersion":"v1","kind":"K","name":"n","uid":"u","controller":null}]`, `{}`), code: 201,
				says: says{"metadata.labels": `{"a":""}`, "metadata.ownerReferences": `[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]`}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":{"x":"y"}}}`, code: 200,
				says: says{"metadata.labels": `{"x":"y"}`, "metadata.generation": "1"}},
			exchange{do: "POST " + widgets, body: widget("c", spec), code: 201, says: says{"spec.pod": `{"apiVersion":"v1","kind":"Pod","metadata":{}}`}},
			exchange{do: "PATCH " + widgets + "/c?fieldManager=m&force=true", header: asApply, body: with("c", nothing, `{"size":2}`), code: 200,
				says: says{"metadata.labels": "-", "metadata.annotations": "-", "metadata.managedFields.#(manager==m).fieldsV1.f:spec": `{"f:size":{}}`}})
	}
	onEveryDatabase(t, test)
	t.Run("without fast paths", func(t *testing.T) {
		t.Cleanup(fastpath.TurnAll(false))
		test(t, newAPI(t))
	})
}

// Embedded resources modified by webhooks are coerced, too; metadata that cannot be coerced fails validation.
func TestWebhooksOfMetadataWithin(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", podsWithin, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("old", `{"size":1}`), code: 201},
		exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/mutate", ruleFor("example.com", "v1", "widgets"), ""))})
	writes := func(patch string, created, updated int, shows says) {
		v.patches("/mutate", patch)
		a.run(exchange{shows: patch, do: "POST " + widgets + "?dryRun=All", body: widget("a", `{"size":1}`), code: created, says: shows},
			exchange{shows: patch, do: "PATCH " + widgets + "/a?fieldManager=m&dryRun=All", header: asApply, body: widget("a", `{"size":1}`), code: created, says: shows},
			exchange{shows: patch, do: "PATCH " + widgets + "/old", header: asMergePatch, body: `{"spec":{"size":2}}`, code: updated, says: shows})
	}
	for _, metadata := range []string{`{"creationTimestamp":null}`, `{"bogus":1}`, `null`} {
		writes(`[{"op":"add","path":"/spec/pod","value":{"apiVersion":"v1","kind":"Pod","metadata":`+metadata+`}}]`, 201, 200,
			says{"spec.pod": `{"apiVersion":"v1","kind":"Pod","metadata":{}}`})
	}
	writes(`[{"op":"add","path":"/spec/size","value":7},{"op":"add","path":"/metadata/labels","value":{"a":1}}]`, 422, 422,
		says{"reason": "Invalid", "details.causes.#.field": `["metadata"]`})
	writes(`[{"op":"add","path":"/spec/size","value":7},{"op":"replace","path":"/kind","value":"Foo"}]`, 422, 422,
		says{"reason": "Invalid", "details.kind": "Foo", "details.causes.0": `{"reason":"FieldValueInvalid","message":"Invalid value: \"Foo\": must be Widget","field":"kind"}`})
	a.run(exchange{do: "GET " + widgets + "/old", code: 200, says: says{"spec.size": "2", "kind": "Widget"}})
}

// An object from a conversion webhook is coerced in the target version. If that fails, the object is unreadable.
func TestConvertedMetadata(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		hook := newConverter(t)
		body := strings.ReplaceAll(hook.definition("v1"), `{"type":"object","properties":{"one":`, strings.TrimSuffix(podsWithin, "}}")+`,"one":`)
		body = strings.ReplaceAll(body, `{"type":"object","properties":{"other":`, strings.TrimSuffix(podsWithin, "}}")+`,"other":`)
		adds := func(metadata, pod string) {
			hook.answers(func(w http.ResponseWriter, review gjson.Result) bool {
				converted := []json.RawMessage{}
				for _, o := range review.Get("request.objects").Array() {
					raw := strings.Replace(o.Raw, o.Get("apiVersion").Str, review.Get("request.desiredAPIVersion").Str, 1)
					raw = strings.Replace(raw, `"metadata":{`, `"metadata":{`+metadata, 1)
					converted = append(converted, json.RawMessage(strings.Replace(raw, `"spec":{`, `"spec":{"pod":`+pod+`,`, 1)))
				}
				respond(w, review, map[string]any{"status": "Success"}, converted)
				return true
			})
		}
		a.run(exchange{do: "POST " + definitions, body: body, code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
			exchange{do: "POST " + widgets, body: widget("b", `{"size":1}`), code: 201, keep: keptAs("b")})
		plain := says{"metadata.labels": "-", "metadata.annotations": "-", "spec.pod": `{"apiVersion":"v1","kind":"Pod","metadata":{}}`}
		adds(`"labels":{},"annotations":{},`, `{"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":null,"bogus":1}}`)
		a.run(exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: plain},
			exchange{do: "POST " + widgetsAsV2, body: widgetAsV2("c", `{"size":1}`), code: 201, says: plain},
			exchange{do: "GET " + widgets + "/c", code: 200, says: plain})
		adds("", `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":1}}}`)
		const why = `spec.pod.metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`
		a.run(exchange{do: "GET " + widgetsAsV2 + "/b", code: 500, says: says{"reason": "InternalError", "message": "Internal error occurred: StorageError: corrupt object, " +
			"Code: 7, Key: /example.com/widgets/test/b, ResourceVersion: 0, AdditionalErrorMsg: " + undecodable("b", why)}},
			exchange{do: "POST " + widgetsAsV2, body: widgetAsV2("d", `{"size":1}`), code: 500, says: says{"message": why}},
			exchange{do: "GET " + widgets + "/d", code: 404})
	})
}

// A value of items that is no schema is neither stored nor returned.
func TestItemsThatAreNoSchema(t *testing.T) {
	for _, items := range []string{"true", "false", "[]", "3"} {
		a := newAPI(t)
		body := widgetDefinition(widgetVersion("v1", `{"type":"object","properties":{"size":{"type":"integer","items":`+items+`}}}`, true))
		shows := says{"spec.versions.0.schema.openAPIV3Schema.properties.spec.properties.size": `{"type":"integer"}`}
		a.run(exchange{shows: items, do: "POST " + definitions + "?dryRun=All", body: body, code: 201, says: shows},
			exchange{shows: items, do: "POST " + definitions, body: body, code: 201, says: shows},
			exchange{shows: items, do: "GET " + definitions + "/widgets.example.com", code: 200, says: shows})
	}
}
