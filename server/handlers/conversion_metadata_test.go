package handlers_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// partialPatch requests metadata as the response to a patch.
func partialPatch(patch says) says {
	header := maps.Clone(patch)
	maps.Copy(header, partially("application/json", ""))
	return header
}

// storeIn sets the storage version of a definition with two versions.
func storeIn(version string) exchange {
	return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asJSONPatch, code: 200, body: fmt.Sprintf(
		`[{"op":"replace","path":"/spec/versions/0/storage","value":%t},{"op":"replace","path":"/spec/versions/1/storage","value":%t}]`,
		version == "v1", version == "v2")}
}

func finalized(name string) string {
	return strings.Replace(widget(name, `{"one":1}`), `"name":"`+name+`"`, `"name":"`+name+`","finalizers":["example.com/f"]`, 1)
}

// Removing a finalizer by a patch whose response is metadata calls no webhook, whatever the object's stored version and the storage version are.
// The object is deleted then; with other patches it remains in its version.
func TestFinalizerOfAnotherVersion(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		hook := newConverter(t)
		hook.down()
		a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
		patches := map[string]says{`{"metadata":{"finalizers":null}}`: asMergePatch, `[{"op":"remove","path":"/metadata/finalizers"}]`: asJSONPatch}
		for _, storage := range []string{"v1", "v2"} {
			for at, path := range []string{widgets, widgetsAsV2} {
				for body, header := range patches {
					name := fmt.Sprintf("%s-%d-%d", storage, at, len(body))
					a.run(storeIn("v1"), exchange{do: "POST " + widgets, body: finalized(name), code: 201}, storeIn(storage))
					hook.asked()
					a.run(
						exchange{do: "PATCH " + path + "/" + name, header: partialPatch(asMergePatch), body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200,
							says: says{"kind": "PartialObjectMetadata", "metadata.labels.a": "b", "metadata.generation": "1", "metadata.managedFields.#.apiVersion": `["example.com/v1"]`}},
						exchange{do: "GET " + widgets + "/" + name, code: 200, says: says{"apiVersion": "example.com/v1", "spec": `{"one":1}`}},
						exchange{do: "DELETE " + path + "/" + name, code: 200},
						exchange{do: "PATCH " + path + "/" + name, header: partialPatch(header), body: body, code: 200, says: says{"metadata.finalizers": "-"}},
						exchange{do: "GET " + widgets + "/" + name, header: partially("application/json", ""), code: 404})
					hook.wants(t, name, 0, 0)
				}
			}
		}
	})
}

// A patch of the metadata of an object in another version is validated as metadata, and does not change other fields, even if the version is no
// longer served or no longer in the definition.
func TestMetadataOfAnotherVersion(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST " + widgets, body: finalized("a"), code: 201, keep: keptAs("before")},
		exchange{do: "POST " + widgets, body: finalized("b"), code: 201}, storeIn("v2"),
		exchange{do: "DELETE " + widgetsAsV2 + "/b", code: 200})
	hook.down()
	hook.asked()
	invalid := says{"reason": "Invalid"}
	patch := func(name, body string, code int, says says) exchange {
		return exchange{do: "PATCH " + widgetsAsV2 + "/" + name, header: partialPatch(asMergePatch), body: `{"metadata":` + body + `}`, code: code, says: says}
	}
	a.run(
		patch("a", `{"uid":"another"}`, 422, invalid),
		patch("a", `{"name":"b"}`, 400, nil),
		patch("a", `null`, 400, nil),
		patch("a", `{"labels":{"a":"no label"}}`, 422, invalid),
		patch("b", `{"finalizers":["example.com/f","example.com/g"]}`, 422, invalid),
		patch("a", `{"labels":{"a":"b"},"resourceVersion":"1"}`, 409, nil),
		patch("a", `{"labels":{"a":"b"},"resourceVersion":"{before}"}`, 200, says{"metadata.labels.a": "b"}),
		patch("a", `{}`, 200, says{"metadata.labels.a": "b"}),
		exchange{do: "PATCH " + widgetsAsV2 + "/a?dryRun=All", header: partialPatch(asJSONPatch), body: `[{"op":"remove","path":"/metadata/labels"}]`, code: 200,
			says: says{"metadata.labels": "-"}},
		exchange{do: "PATCH " + widgetsAsV2 + "/a?fieldValidation=Strict", header: partialPatch(asMergePatch), body: `{"metadata":{"labls":{}}}`, code: 422, says: invalid},
		exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"one":1}`, "metadata.labels.a": "b"}})
	for _, edit := range []exchange{
		{do: "PATCH " + definitions + "/widgets.example.com", header: asJSONPatch, body: `[{"op":"replace","path":"/spec/versions/0/served","value":false}]`, code: 200},
		{do: "PATCH " + definitions + "/widgets.example.com/status", header: asMergePatch, body: `{"status":{"storedVersions":["v2"]}}`, code: 200},
		{do: "PATCH " + definitions + "/widgets.example.com", header: asJSONPatch, body: `[{"op":"remove","path":"/spec/versions/0"}]`, code: 200},
	} {
		a.run(edit, patch("a", `{"labels":{"a":"c"}}`, 200, says{"metadata.labels.a": "c"}), patch("a", `{"labels":{"a":"d"}}`, 200, says{"metadata.labels.a": "d"}))
	}
	a.run(patch("a", `{"finalizers":null}`, 200, says{"metadata.finalizers": "-"}))
	hook.wants(t, "all of that", 0, 0)
	events := a.events(t, "widgets.example.com")
	if data := string(events[len(events)-1].Object.Data); !strings.HasPrefix(data, `{"apiVersion":"example.com/v1",`) || !strings.Contains(data, `"spec":{"one":1}`) {
		t.Errorf("it is stored as %s", data)
	}
}

// If the object is and remains in the request's version, the schema of that version applies.
func TestMetadataByTheRulesOfItsVersion(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	changing := `"schema":{"openAPIV3Schema":{"x-kubernetes-validations":[{"rule":"self.metadata.name == oldSelf.metadata.name && self.spec != oldSelf.spec"}],`
	a.run(exchange{do: "POST " + definitions, body: strings.Replace(hook.definition("v1"), `"schema":{"openAPIV3Schema":{`, changing, 1), code: 201},
		exchange{do: "POST " + widgets, body: finalized("a"), code: 201},
		exchange{do: "PATCH " + widgets + "/a", header: partialPatch(asMergePatch), body: `{"metadata":{"labels":{"a":"b"}}}`, code: 422},
		exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 422})
}

// A create whose name is taken calls no webhook to find out whether the object is being deleted.
func TestCreateOverObjectOfAnotherVersion(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST " + widgets, body: finalized("a"), code: 201},
		exchange{do: "DELETE " + widgets + "/a", code: 200}, storeIn("v2"))
	hook.down()
	hook.asked()
	for _, query := range []string{"", "?dryRun=All"} {
		a.run(exchange{do: "POST " + widgetsAsV2 + query, body: widgetAsV2("a", `{"other":1}`), code: 409,
			says: says{"message": `object is being deleted: widgets.example.com "a" already exists`}})
	}
	hook.wants(t, "a create", 0, 0)
}

// A patch of the metadata of an object that is being deleted works while the webhook is down, also if the response is the object, as kubectl asks
// for it. The response is in the version of the request where the webhook answers, and else in the stored version, as that of a deletion.
func TestFinalizersOfDeletedObject(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		hook := newConverter(t)
		a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
		deleted := func(name string) {
			t.Helper()
			hook.answers(nil)
			a.run(exchange{do: "POST " + widgets, body: strings.Replace(finalized(name), `"example.com/f"`, `"example.com/f","example.com/g"`, 1), code: 201},
				exchange{do: "DELETE " + widgets + "/" + name, code: 200})
		}
		const one, none = `{"metadata":{"finalizers":["example.com/g"]}}`, `[{"op":"remove","path":"/metadata/finalizers"}]`
		for _, storage := range []string{"v1", "v2"} {
			a.run(storeIn("v1"))
			deleted("up")
			deleted("down")
			a.run(storeIn(storage),
				exchange{do: "PATCH " + widgetsAsV2 + "/up", header: asMergePatch, body: one, code: 200, says: says{"apiVersion": "example.com/v2", "spec": `{"other":1}`}},
				exchange{do: "PATCH " + widgetsAsV2 + "/up", header: asJSONPatch, body: none, code: 200, says: says{"apiVersion": "example.com/v2", "spec": `{"other":1}`}},
				exchange{do: "GET " + widgets + "/up", code: 404})
			hook.down()
			a.run(exchange{do: "PATCH " + widgetsAsV2 + "/down", header: asMergePatch, body: `{"spec":{"other":2}}`, code: 500},
				exchange{do: "PATCH " + widgetsAsV2 + "/down?dryRun=All", header: asMergePatch, body: one, code: 200, says: says{"apiVersion": "example.com/v1"}},
				exchange{do: "PATCH " + widgetsAsV2 + "/down", header: asMergePatch, body: one, code: 200,
					says: says{"apiVersion": "example.com/v1", "spec": `{"one":1}`, "metadata.finalizers": `["example.com/g"]`}},
				exchange{do: "PATCH " + widgetsAsV2 + "/down", header: asJSONPatch, body: none, code: 200, says: says{"apiVersion": "example.com/v1"}},
				exchange{do: "GET " + widgets + "/down", code: 404})
		}
	})
}

// The same holds where a manager of another version owns fields of the object.
func TestFinalizersOfOwnedObject(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "PATCH " + widgetsAsV2 + "/a?fieldManager=m", header: asApply, body: strings.Replace(widgetAsV2("a", `{"other":1}`), `"name":"a"`, `"name":"a","finalizers":["example.com/f"]`, 1), code: 201},
		exchange{do: "DELETE " + widgets + "/a", code: 200})
	hook.down()
	a.run(exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{"metadata":{"finalizers":null}}`, code: 200},
		exchange{do: "GET " + widgets + "/a", code: 404})
}

// An object that is not being deleted is answered in the version of the request or not at all: its client expects that version.
func TestMetadataPatchOfKeptObject(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		hook := newConverter(t)
		a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
			exchange{do: "POST " + widgets, body: finalized("a"), code: 201})
		patch := exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200,
			says: says{"apiVersion": "example.com/v2", "spec": `{"other":1}`}}
		const toV2 = "example.com/v2"
		a.run(patch)
		hook.answers(func(w http.ResponseWriter, review gjson.Result) bool { // the object is converted to be patched, and the answer is not
			if patched := review.Get("request.objects.0.metadata.labels.a").Str == "c"; !patched || review.Get("request.desiredAPIVersion").Str != toV2 {
				return false
			}
			http.Error(w, "down", http.StatusInternalServerError)
			return true
		})
		patch.body, patch.code, patch.says = `{"metadata":{"labels":{"a":"c"}}}`, http.StatusInternalServerError, says{"kind": "Status"}
		a.run(patch, exchange{do: "GET " + widgets + "/a", code: 200, says: says{"metadata.labels.a": "c"}})
	})
}
