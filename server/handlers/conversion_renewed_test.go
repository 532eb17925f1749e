package handlers_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// When the spec of a definition changes, its webhook converts the objects again, in every encoding, since a corrected one may have taken its place
// behind the same address. Watches go on as long as it gives the same results; with the first other one, their clients have to list again.
func TestWebhookThatIsCorrected(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		hook, s := newConverter(t), a.listen()
		edit := func(body string) exchange {
			return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: body, code: 200}
		}
		shown := func(value string) []exchange {
			return []exchange{{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec.other": value}},
				{do: "GET " + widgetsAsV2, header: says{"Accept-Encoding": "gzip"}, code: 200}, {do: "GET " + widgetsAsV2, code: 200, says: says{"items.0.spec.other": value}}}
		}
		a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201})
		a.run(shown("1")...)
		watch, stored := a.watch(s, widgetsAsV2, nil), a.watch(s, widgets, nil)
		watch.expect("ADDED a")
		stored.expect("ADDED a")
		hook.asked()

		a.run(edit(`{"spec":{"names":{"shortNames":["wi"]}}}`))
		a.run(shown("1")...)
		if requests, _ := hook.asked(); requests == 0 {
			t.Error("the objects are not converted again")
		}
		a.run(exchange{do: "POST " + widgets, body: widget("b", `{"one":1}`), code: 201})
		watch.expect("ADDED b") // it went on

		hook.answersWith("v2", func(o string) string { return strings.Replace(o, `"one":1`, `"other":2`, 1) })
		a.run(shown("1")...) // upstream keeps conversions, too, until the definition changes
		s2, ok := a.registry.Catalog().Lookup(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"})
		if !ok {
			t.Fatal("v2 is not served")
		}
		a.run(edit(`{"spec":{"names":{"shortNames":["wid"]}}}`))
		a.run(shown("2")...)
		<-s2.Ended()
		if e := watch.next(); gjson.Get(e, "type").Str != "ERROR" || gjson.Get(e, "object.code").Int() != 410 {
			t.Errorf("got %s, want an error with 410", e)
		}
		watch.ends()
		a.run(exchange{do: "GET " + widgetsAsV2, code: 200, keep: says{"now": "metadata.resourceVersion"}})
		again := a.watch(s, widgetsAsV2+"?resourceVersion={now}", nil) // as an informer does
		a.run(edit(`{"spec":{"names":{"shortNames":["widg"]}}}`))
		a.run(shown("2")...)
		a.run(exchange{do: "POST " + widgets, body: widget("c", `{"one":1}`), code: 201})
		again.expect("ADDED c")
		stored.expect("ADDED b", "ADDED c") // that of the stored version has gone on throughout
	})
}

// After a change of the definition an object is converted once, also if its result is the first other one, with which the watches end: lists that have
// begun before share their results with later ones.
func TestOtherResultsAreShared(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	for _, name := range []string{"a", "b", "c"} {
		a.run(exchange{do: "POST " + widgets, body: widget(name, `{"one":1}`), code: 201})
	}
	list := func(value string) exchange {
		return exchange{do: "GET " + widgetsAsV2, code: 200, says: says{"items.#.spec.other": value}}
	}
	a.run(list("[1,1,1]"))
	hook.answersWith("v2", func(o string) string { return strings.Replace(o, `"one":1`, `"other":2`, 1) })
	hook.asked()
	a.run(exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"names":{"shortNames":["wi"]}}}`, code: 200},
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec.other": "2"}})
	hook.wants(t, "the first read", 1, 1)
	a.run(list("[2,2,2]"), list("[2,2,2]"), exchange{do: "GET " + widgetsAsV2 + "/a", code: 200})
	hook.wants(t, "later reads", 1, 2)
}
