package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Watches of a version end when a definition changes how its objects are rendered. They continue when another version gets more fields, and when
// the storage version changes.
func TestEditsThatEndWatches(t *testing.T) {
	fields := func(more ...string) string {
		return `{"type":"object","properties":{` + strings.Join(append([]string{`"size":{"type":"integer"}`}, more...), ",") + `}}`
	}
	const more, defaulted = `"more":{"type":"string"}`, `"more":{"type":"string","default":"x"}`
	plain := fields()
	for name, c := range map[string]struct {
		v1, v2          string // the original versions
		now1, now2      string
		inV2            bool // v2 is the storage version from then on
		alive1, alive2  bool
		shows1, shows2  string
		again1, became1 string // v1 after the next change, and how it renders the object
	}{
		"another field in v1":                {v1: plain, v2: plain, now1: fields(more), now2: plain, alive2: true},
		"another default in v1":              {v1: plain, v2: plain, now1: fields(defaulted), now2: plain, alive2: true, shows1: `{"more":"x","size":1}`},
		"a default in v1 that v2 shows":      {v1: fields(more), v2: fields(more), now1: fields(defaulted), now2: fields(more), shows1: `{"more":"x","size":1}`, shows2: `{"more":"x","size":1}`},
		"another field in v2":                {v1: plain, v2: plain, now1: plain, now2: fields(more), alive1: true},
		"stored in v2":                       {v1: plain, v2: plain, now1: plain, now2: plain, inV2: true, alive1: true, alive2: true},
		"stored in v2, which has more":       {v1: plain, v2: fields(defaulted), now1: plain, now2: fields(defaulted), inV2: true, alive1: true, alive2: true},
		"stored in v2, and v1 changes later": {v1: plain, v2: fields(more), now1: plain, now2: fields(more), inV2: true, alive1: true, alive2: true, again1: fields(defaulted), became1: `{"more":"x","size":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			versions := func(v1, v2 string, inV2 bool) string {
				return widgetDefinition(widgetVersion("v1", v1, !inV2), widgetVersion("v2", v2, inV2))
			}
			edit := func(v1, v2 string, inV2 bool) exchange {
				return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, code: 200, body: versions(v1, v2, inV2)}
			}
			life := func(version string) func() bool {
				gvr := schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "widgets"}
				s, ok := a.registry.Catalog().Lookup(gvr)
				if !ok {
					t.Fatalf("%s is not served", version)
				}
				return func() bool {
					select {
					case <-s.Ended():
						return false
					default:
						return true
					}
				}
			}
			a.run(exchange{do: "POST " + definitions, body: versions(c.v1, c.v2, false), code: 201},
				exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201})
			shows := func(path, spec string) exchange {
				if spec == "" {
					spec = `{"size":1}`
				}
				return exchange{do: "GET " + path + "/a", code: 200, says: says{"spec": spec}}
			}
			v1, v2 := life("v1"), life("v2")
			a.run(shows(widgets, ""), shows(widgetsAsV2, ""), edit(c.now1, c.now2, c.inV2), shows(widgets, c.shows1), shows(widgetsAsV2, c.shows2))
			if got, want := fmt.Sprint(v1(), v2()), fmt.Sprint(c.alive1, c.alive2); got != want {
				t.Errorf("the watches of v1 and v2 live on: %s, want %s", got, want)
			}
			if c.again1 != "" {
				v2 = life("v2")
				a.run(edit(c.again1, c.now2, c.inV2), shows(widgets, c.became1), shows(widgetsAsV2, c.became1))
				if v2() {
					t.Error("the watches of v2 live on, though v1, in which an object is stored, has changed")
				}
			}
		})
	}
}

// An object in an older storage version is converted by the current webhook, too, and watches end when the webhook is replaced.
func TestAnotherWebhookShowsOlderObjects(t *testing.T) {
	a, hook, another := newAPI(t), newConverter(t), newConverter(t)
	another.answers(func(w http.ResponseWriter, review gjson.Result) bool {
		respond(w, review, map[string]any{"status": "Success"}, []json.RawMessage{
			json.RawMessage(strings.NewReplacer("example.com/v1", "example.com/v2", `"one":1`, `"other":2`).Replace(review.Get("request.objects.0").Raw))})
		return true
	})
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201}, storeIn("v2"),
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{"other":1}`}})
	s, ok := a.registry.Catalog().Lookup(schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"})
	if !ok {
		t.Fatal("v2 is not served")
	}
	conversion := gjson.Get(another.definition("v1"), "spec.conversion").Raw
	a.run(exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"conversion":` + conversion + `}}`, code: 200},
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{"other":2}`}})
	select {
	case <-s.Ended():
	default:
		t.Error("watches of v2 live on")
	}
}

// A watch continues while its definition has the fields of its selector, and then ends at once: it is undefined which objects match, so that the
// client would miss changes, for good if the fields came back.
func TestWatchByFieldThatGoes(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		s := a.listen()
		edit := func(version string) exchange {
			return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, code: 200, body: widgetDefinition(version)}
		}
		create := func(name string) exchange {
			return exchange{do: "POST " + widgets, body: widget(name, `{"size":1}`), code: 201}
		}
		with := widgetVersion("v1", widgetSpec, true)
		without := strings.Replace(with, `"selectableFields":[{"jsonPath":".spec.color"}],`, "", 1)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(with), code: 201})
		red, all := a.watch(s, widgets+"?fieldSelector=spec.color%3Dred", nil), a.watch(s, widgets+"?fieldSelector=metadata.name!%3Dx", nil)
		// The hub version may have other names for the fields of a built-in type.
		events := a.watch(s, "/apis/events.k8s.io/v1/events?fieldSelector=regarding.kind%3DPod", nil)
		a.run(create("a"), edit(strings.Replace(with, ".spec.color", `.spec.size"},{"jsonPath":".spec.color`, 1)), create("b"))
		red.expect("ADDED a", "ADDED b")
		refused := exchange{do: "GET " + widgets + "?fieldSelector=spec.color%3Dred", code: 400}
		a.run(edit(without), refused, refused) // every server has taken up the edit
		if e := red.next(); gjson.Get(e, "type").Str != "ERROR" || gjson.Get(e, "object.code").Int() != 410 {
			t.Errorf("got %s, want an error with 410", e)
		}
		red.ends()
		a.run(create("c"), edit(with), create("d"))
		all.expect("ADDED a", "ADDED b", "ADDED c", "ADDED d")
		a.run(exchange{do: "POST /api/v1/namespaces/test/events", code: 201,
			body: `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","namespace":"test"},"type":"Normal"}`})
		events.expect("ADDED e")
	})
}
