package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// answersWith makes the webhook convert only the apiVersion, and modify objects when it converts to one of the versions.
func (c *converter) answersWith(version string, change func(object string) string) {
	c.answers(func(w http.ResponseWriter, review gjson.Result) bool {
		to := review.Get("request.desiredAPIVersion").Str
		var made []json.RawMessage
		for _, o := range review.Get("request.objects").Array() {
			raw := strings.Replace(o.Raw, o.Get("apiVersion").Str, to, 1)
			if strings.HasSuffix(to, version) {
				raw = change(raw)
			}
			made = append(made, json.RawMessage(raw))
		}
		respond(w, review, map[string]any{"status": "Success"}, made)
		return true
	})
}

// If the result of a dry run cannot be converted for the response, the error is that of the webhook converter: there is no stored object to name.
func TestDryRunThatCannotBeShown(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	hook.answersWith("v2", func(o string) string { return strings.Replace(o, `"name":"a"`, `"name":"b"`, 1) })
	plain := says{"reason": "-", "details": "-",
		"message": "conversion webhook for example.com/v1, Kind=Widget returned invalid object: must have the same name: a != b"}
	a.run(exchange{do: "POST " + widgetsAsV2 + "?dryRun=All", body: widgetAsV2("a", `{"other":1}`), code: 500, says: plain},
		exchange{do: "PATCH " + widgetsAsV2 + "/a?dryRun=All&fieldManager=m", header: asApply, body: widgetAsV2("a", `{"other":1}`), code: 500, says: plain})
}

// If the webhook drops the replicas when it converts to or from the storage version, a change of the scale is stored, and the response has no
// replicas. If it replaces them by an invalid value, the response is an error.
func TestScaleThatTheWebhookLoses(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	const scaled = `"subresources":{"scale":{"specReplicasPath":".spec.one","statusReplicasPath":".status.one"}},"schema"`
	a.run(exchange{do: "POST " + definitions, body: strings.NewReplacer(`"schema"`, scaled, `"other"`, `"one"`).Replace(hook.definition("v1")), code: 201})
	change := func(name string) []exchange {
		scale := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"` + name + `","namespace":"test"},"spec":{"replicas":4}}`
		return []exchange{{do: "PATCH " + widgetsAsV2 + "/" + name + "/scale", header: asMergePatch, body: `{"spec":{"replicas":3}}`},
			{do: "PUT " + widgetsAsV2 + "/" + name + "/scale", body: scale},
			{do: "PATCH " + widgetsAsV2 + "/" + name + "/scale?dryRun=All", header: asMergePatch, body: `{"spec":{"replicas":3}}`}}
	}
	run := func(name string, code int, says says) {
		t.Helper()
		a.run(exchange{do: "POST " + widgets, body: widget(name, `{"one":2}`), code: 201})
		for _, e := range change(name) {
			e.code, e.says = code, says
			a.run(e)
		}
	}
	none := says{"kind": "Scale", "spec": "{}", "status": `{"replicas":0}`}
	lose := func(o string) string {
		return strings.NewReplacer(`"one":2`, "", `"one":3`, "", `"one":4`, "").Replace(o)
	}
	hook.answersWith("v2", lose)
	run("read", 200, none)
	a.run(exchange{do: "GET " + widgets + "/read", code: 200, says: says{"spec": `{"one":4}`, "metadata.generation": "3"}},
		exchange{do: "GET " + widgetsAsV2 + "/read/scale", code: 500, says: says{"message": `Internal error occurred: the spec replicas field ".spec.one" does not exist`}})
	hook.answersWith("v1", lose)
	run("stored", 200, none)
	a.run(exchange{do: "GET " + widgets + "/stored", code: 200, says: says{"spec": "{}"}})
	hook.answersWith("v1", func(o string) string { return strings.NewReplacer(`"one":3`, `"one":"many"`).Replace(o) })
	a.run(exchange{do: "POST " + widgets, body: widget("text", `{"one":2}`), code: 201})
	e := change("text")[0]
	e.code, e.says = 400, says{"reason": "BadRequest", "message": ".spec.one accessor error: many is of the type string, expected int64"}
	a.run(e)
}
