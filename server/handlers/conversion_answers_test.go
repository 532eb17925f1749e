package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// answersWith has the webhook convert nothing but the version, and change what it is asked for in one of them.
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

// What nobody can show of a dry run is said in the words of the webhook's converter: nothing is stored that could not be decoded.
func TestDryRunThatCannotBeShown(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	hook.answersWith("v2", func(o string) string { return strings.Replace(o, `"name":"a"`, `"name":"b"`, 1) })
	plain := says{"reason": "-", "details": "-",
		"message": "conversion webhook for example.com/v1, Kind=Widget returned invalid object: must have the same name: a != b"}
	a.run(exchange{do: "POST " + widgetsAsV2 + "?dryRun=All", body: widgetAsV2("a", `{"other":1}`), code: 500, says: plain},
		exchange{do: "PATCH " + widgetsAsV2 + "/a?dryRun=All&fieldManager=m", header: asApply, body: widgetAsV2("a", `{"other":1}`), code: 500, says: plain})
}
