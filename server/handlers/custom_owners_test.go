package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// An owner reference without a uid is rejected by every write, with and without fast paths.
func TestOwnerWithoutUID(t *testing.T) {
	const owner = `{"apiVersion":"v1","kind":"ConfigMap","name":"x"}`
	owned := func(name, owners string) string {
		return strings.Replace(widget(name, `{"size":1}`), `"metadata":{`, `"metadata":{"ownerReferences":[`+owners+`],`, 1)
	}
	refused := says{"reason": "Invalid", "message": `Widget.example.com "a" is invalid: [metadata.ownerReferences[0].uid: Required value: must not be empty, ` +
		`<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation]`}
	t.Cleanup(fastpath.TurnAll(true))
	for _, on := range []bool{true, false} {
		fastpath.TurnAll(on)
		a := newAPI(t)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
			exchange{shows: "created by apply", do: "PATCH " + widgets + "/a?fieldManager=m", header: asApply, body: owned("a", owner), code: 422, says: refused},
			exchange{do: "POST " + widgets, body: owned("a", owner), code: 422, says: refused},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
			exchange{shows: "changed by apply", do: "PATCH " + widgets + "/a?fieldManager=m", header: asApply, body: owned("a", owner), code: 422, says: refused},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"ownerReferences":[` + owner + `]}}`, code: 422, says: refused},
			exchange{shows: "one key twice", do: "PATCH " + widgets + "/a?fieldManager=m", header: asApply, body: owned("a", owner+","+owner), code: 500, says: says{
				"message": `failed to create typed patch object (/a; example.com/v1, Kind=Widget): .metadata.ownerReferences: duplicate entries for key [uid=""]`}})
	}
}

// Orphaning removes ownerReferences instead of leaving an empty list.
func TestOrphanedCustomResource(t *testing.T) {
	a := newAPI(t)
	a.work()
	child := strings.Replace(widget("child", `{"size":1}`), `"metadata":{`, `"metadata":{"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Widget","name":"owner","uid":"{uid}"}],`, 1)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("owner", `{"size":1}`), code: 201, keep: says{"uid": "metadata.uid"}},
		exchange{do: "POST " + widgets, body: child, code: 201})
	a.run(exchange{do: "DELETE " + widgets + "/owner", body: `{"propagationPolicy":"Orphan"}`, code: 200})
	a.until("widgets.example.com", "the owner goes", func() bool {
		return a.send(exchange{do: "GET " + widgets + "/owner"}).Code == 404
	})
	a.run(exchange{do: "GET " + widgets + "/child", code: 200, says: says{"metadata.ownerReferences": "-"}})
}

// Invalid metadata is quoted completely in the error, managedFields included.
func TestMetadataIsQuotedWhole(t *testing.T) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprintf("fast=%t", on), func(t *testing.T) {
			t.Cleanup(fastpath.TurnAll(on))
			a := newAPI(t)
			a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
				exchange{do: "POST " + widgets + "?fieldManager=poster", body: widget("a", `{"size":1}`), code: 201})
			const body = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"deletionTimestamp":"soon"}}`
			_, answer := a.request("PATCH", widgets+"/a?fieldManager=applier", body, asApply)
			quoted := gjson.Parse(strings.TrimPrefix(gjson.Get(answer, "details.causes.0.message").Str, "Invalid value: "))
			if got := quoted.Get("managedFields.#.manager").Raw; got != `["applier","poster"]` || quoted.Get("deletionTimestamp").Str != "soon" {
				t.Errorf("managers %s are quoted in %s", got, answer)
			}
		})
	}
}
