package handlers_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// Applying a definition again without a change has the same response, whether it is computed or cached. The cache is valid only while the
// definition is unchanged.
func TestDefinitionAppliedAgain(t *testing.T) {
	t.Cleanup(fastpath.Repeats.Turn(true))
	a := newAPI(t)
	const path = "PATCH " + definitions + "/widgets.example.com?fieldManager="
	body := widgetDefinition(widgetVersion("v1", widgetSpec, true))
	labelled := strings.Replace(body, `"metadata":{`, `"metadata":{"labels":{"by":"other"},`, 1)
	apply := func(manager, body string, remembered int64) string {
		t.Helper()
		before := fastpath.Repeats.Fallbacks()
		answer := a.send(exchange{do: path + manager, header: asApply, body: body, code: 200}).Body.String()
		if n := fastpath.Repeats.Fallbacks() - before; n != 1-remembered {
			t.Errorf("as %s: %d updates that changed nothing were computed, want %d", manager, n, 1-remembered)
		}
		return answer
	}
	a.run(exchange{do: path + "me", header: asApply, body: body, code: 201})
	first := apply("me", body, 0)
	for _, how := range []string{"me", "me&dryRun=All", "me&force=true", "me&fieldValidation=Strict"} {
		if how != "me" && apply(how, body, 0) != first {
			t.Errorf("as %s: the answer differs", how)
		}
		for range 2 {
			if apply(how, body, 1) != first {
				t.Errorf("as %s, remembered: the answer differs", how)
			}
		}
	}
	a.run(exchange{do: path + "other", header: asApply, body: labelled, code: 200, says: says{"metadata.labels.by": "other"}})
	if second := apply("me", body, 0); second == first || apply("me", body, 1) != second {
		t.Error("the answer is not that of the present definition")
	}
	a.run(
		exchange{do: path + "other", header: asApply, body: body, code: 200, says: says{"metadata.labels": "-"}},
		exchange{do: path + "third", header: asApply, body: strings.Replace(body, `"wd"`, `"w"`, 1), code: 409},
		exchange{do: path + "third", header: asApply, body: strings.Replace(body, `"wd"`, `"w"`, 1), code: 409},
	)
}

// A definition that lacks its names gets them when it is applied again after the names have become free.
func TestDefinitionAppliedAgainForItsName(t *testing.T) {
	a := newAPI(t)
	a.work()
	body := widgetDefinition(widgetVersion("v1", widgetSpec, true))
	gadgets := strings.NewReplacer("widgets", "gadgets", "Widget", "Gadget").Replace(body)
	apply := exchange{do: "PATCH " + definitions + "/gadgets.example.com?fieldManager=me", header: asApply, body: gadgets, code: 200,
		says: says{`status.conditions.#(type=="NamesAccepted").status`: "False"}}
	a.run(exchange{do: "POST " + definitions, body: body, code: 201})
	first := apply
	first.code = 201
	a.run(first, apply, apply, apply, exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200})
	a.until("customresourcedefinitions.apiextensions.k8s.io", "widgets are gone", func() bool {
		return a.ask("GET", definitions+"/widgets.example.com", "application/json", "", "").Code == 404
	})
	apply.says = says{`status.conditions.#(type=="NamesAccepted").status`: "True"}
	a.run(apply)
}
