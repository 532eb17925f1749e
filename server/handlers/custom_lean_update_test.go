package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzAppliedDefinitions checks that an apply, by the same manager or another, forced or not, a PUT and a patch of a definition have the same
// results, warnings and errors whether or not schemas stay text.
func FuzzAppliedDefinitions(f *testing.F) {
	a := newAPI(f)
	const plain = `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	texts := append(aroundParts()[:12], plain, `{"type":"object"}`, `{"properties":{"spec":{"properties":{"b":{"type":"integer"},"a":{"type":"string","format":"nosuch"}},"type":"object"}},"type":"object"}`,
		`{}`, `{"type":"string"}`, `{"type":"object","nosuch":1}`, `{"type":"object","type":"object"}`, `{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"self.a == 1"}]}}}`,
		`{"type":"object","properties":{"spec":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","x-kubernetes-map-type":"atomic"}}}}`,
		`{"type":"object","properties":{"spec":{"type":"integer","default":"a"}}}`, `null`, `1`, `{"type":"object","description":"schema 0"}`, `{"type":"object","description":"é < \"x\""}`)
	for i, text := range texts {
		f.Add(plain, plain, text, plain, uint8(i))
		f.Add(text, plain, text, plain, uint8(i+1))
		f.Add(text, plain, plain, text, uint8(i+2))
		f.Add(text, text, text, text, uint8(i+3))
		f.Add(plain, text, text, plain, uint8(32+i%32))
		f.Add(text, plain, text, plain, uint8(64+i%32))
	}
	f.Add(plain, plain, plain, plain, uint8(96)) // patches around schemas
	n := 0
	f.Fuzz(func(t *testing.T, first, second, third, fourth string, how uint8) {
		n++
		group := fmt.Sprintf("g%d.example.com", n)
		body := strings.ReplaceAll(leanDefinition(first, second), "example.com", group)
		path := definitions + "/widgets." + group
		if w := a.answer(t, "PATCH", path+"?fieldManager=f", asApply, body); w == nil || w.Code != 201 {
			return
		}
		change := strings.ReplaceAll(leanDefinition(third, fourth), "example.com", group)
		switch how / 8 % 4 {
		case 1:
			change = strings.Replace(change, `"metadata":{`, `"metadata":{"labels":{"a":"b"},`, 1)
		case 2:
			change = strings.Replace(change, `"served":true,"storage":false`, `"served":false,"storage":false`, 1)
		case 3:
			change = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.` + group + `","labels":{"a":"b"}}}`
		}
		// Managers of the same second are sorted by name, and the server writes conditions: the updater sorts after it in any second.
		options := fmt.Sprintf("?dryRun=All&fieldManager=s&fieldValidation=%s", []string{"Strict", "Warn"}[how/4%2])
		switch how / 32 % 4 {
		case 0:
			options = fmt.Sprintf("%s&force=%t", strings.Replace(options, "=s", []string{"=f", "=g"}[how%2], 1), how/2%2 == 1)
			a.alike(t, "PATCH", path+options, asApply, change)
		case 1:
			revision := gjson.Get(a.answer(t, "GET", path, nil, "").Body.String(), "metadata.resourceVersion").Raw
			a.alike(t, "PUT", path+options, says{"Content-Type": "application/json"}, strings.Replace(change, `"metadata":{`, `"metadata":{"resourceVersion":`+revision+`,`, 1))
		case 2:
			a.alike(t, "PATCH", path+options, asMergePatch, change)
			a.alike(t, "PATCH", path+options, asStrategicPatch, change)
		case 3:
			a.aroundSchemas(t, path+options, first)
		}
	})
}

// aroundSchemas patches a definition outside and inside its schemas.
func (a *api) aroundSchemas(t *testing.T, target, text string) {
	for _, patch := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"nosuch":{"a":1}}}`, `{"metadata":{"annotations":null,"finalizers":["example.com/f"]}}`,
		`{"spec":{"names":{"shortNames":["w"]}}}`, `{"spec":{"versions":null}}`, `{"spec":{"versions":[]}}`, `{"spec":null}`, `{"spec":{"versions":[{"name":"v1","served":true,"storage":true}]}}`,
		`{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","enum":[null]}}}]}}`,
		`{"spec":{"versions":{"0":{"schema":{"openAPIV3Schema":{"type":"object"}}}}}}`, `{"spec":{"versions":[{"$patch":"replace"}]}}`, `{"spec":{"$retainKeys":["group"]}}`, `{"$patch":"delete"}`, `{"metadata":{"$patch":"replace"}}`,
		`{"spec":{"conversion":{"strategy":"Webhook"}}}`, `{"metadata":{"name":"other"}}`, `null`, `[]`, `{"spec":{"group":"a"},"spec":{"versions":[]}}`} {
		a.alike(t, "PATCH", target, asMergePatch, patch)
		a.alike(t, "PATCH", target, asStrategicPatch, patch)
	}
	quoted, _ := json.Marshal(text) // strings can be encoded
	const schema = "/spec/versions/0/schema/openAPIV3Schema"
	for _, patch := range []string{`{"op":"add","path":"/metadata/labels","value":{"a":"b"}}`, `{"op":"copy","from":"` + schema + `/description","path":"/metadata/annotations"}`,
		`{"op":"test","path":"` + schema + `","value":` + string(quoted) + `}`, `{"op":"test","path":"/metadata/name","value":"other"}`, `{"op":"remove","path":"` + schema + `/type"}`, `{"op":"remove","path":"/spec/versions/1"}`,
		`{"op":"copy","from":"/spec/versions/0/schema","path":"/spec/versions/1/schema"}`, `{"op":"move","from":"/metadata/nosuch","path":"/metadata/labels"}`} {
		a.alike(t, "PATCH", target, asJSONPatch, "["+patch+"]")
	}
}

// Applying published definitions again, with a label or by another manager, replacing or patching them does not decode them whole, and stores the
// same.
func TestPublishedDefinitionsAppliedAsText(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	a := newAPI(t)
	published, err := harness.Published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := fastpath.DefinitionSchemas.Fallbacks()
	for i, crd := range published {
		text, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		path, labelled := definitions+"/"+crd.Name, crd.DeepCopy()
		a.run(exchange{do: "PATCH " + path + "?fieldManager=f", header: asApply, body: string(text), code: 201})
		stored := a.answer(t, "GET", path, nil, "").Body.String()
		a.run(exchange{do: "PATCH " + path + "?fieldManager=f", header: asApply, body: string(text), code: 200})
		if again := a.answer(t, "GET", path, nil, "").Body.String(); again != stored {
			t.Errorf("%s: applied again, it is\n%.3000s\nbefore\n%.3000s", crd.Name, again, stored)
		}
		if i%4 > 0 {
			continue
		}
		labelled.Labels = map[string]string{"a": "b"}
		if text, err = json.Marshal(labelled); err != nil {
			t.Fatal(err)
		}
		a.alike(t, "PATCH", path+"?dryRun=All&fieldManager=f", asApply, string(text))
		a.alike(t, "PATCH", path+"?dryRun=All&fieldManager=g", asApply, string(text))
		if i%12 > 0 {
			continue
		}
		a.alike(t, "PATCH", path+"?dryRun=All&fieldManager=s", asMergePatch, string(text))
		a.alike(t, "PUT", path+"?dryRun=All&fieldManager=s", says{"Content-Type": "application/json"}, strings.Replace(stored, `"metadata":{`, `"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}],`, 1))
		for _, as := range []says{asMergePatch, asStrategicPatch} {
			a.alike(t, "PATCH", path+"?dryRun=All&fieldManager=s", as, `{"metadata":{"annotations":{"c":"d"}}}`)
		}
		a.alike(t, "PATCH", path+"?dryRun=All&fieldManager=s", asMergePatch, `{"spec":{"conversion":{"strategy":"None"}}}`)
		a.alike(t, "PATCH", path+"?dryRun=All&fieldManager=s", asJSONPatch, `[{"op":"add","path":"/metadata/labels","value":{"e":"f"}}]`)
	}
	if n := fastpath.DefinitionSchemas.Fallbacks() - before; n != 0 {
		t.Errorf("%d times of %d a definition was read whole", n, len(published))
	}
}

// Admission policies see the schemas of both objects of an update.
func TestSchemasOfUpdatesAreShownWhole(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	a := newAPI(t)
	schema := func(typ string) string {
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"` + typ + `"}}}}}`
	}
	apply := func(typ string, code int, message string) exchange {
		return exchange{do: "PATCH " + definitions + "/widgets.example.com?fieldManager=f", header: asApply, body: leanDefinition(schema(typ), schema("string")), code: code, says: says{"message": message}}
	}
	const denied = `customresourcedefinitions.apiextensions.k8s.io "widgets.example.com" is forbidden: ValidatingAdmissionPolicy 'sized' with binding 'all' denied request: sizes stay`
	merge := func(patch string, code int, message string) exchange {
		return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: patch, code: code, says: says{"message": message}}
	}
	replace := func(typ string, code int, message string) exchange {
		e := apply(typ, code, message)
		revision := gjson.Get(a.answer(t, "GET", definitions+"/widgets.example.com", nil, "").Body.String(), "metadata.resourceVersion").Raw
		e.do, e.header, e.body = "PUT "+definitions+"/widgets.example.com", nil, strings.Replace(e.body, `"metadata":{`, `"metadata":{"resourceVersion":`+revision+`,`, 1)
		return e
	}
	a.run(apply("string", 201, "-"),
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("sized", "apiextensions.k8s.io", "customresourcedefinitions", `"validations":[{"expression":
			"object.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.type == oldObject.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.type",
			"message":"sizes stay"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("all", "sized", `,"validationActions":["Deny"]`)},
		apply("integer", 422, denied),
		apply("string", 200, "-"), apply("string", 200, "-"), apply("string", 200, "-"), // repeats are cached, and still evaluated
		merge(`{"metadata":{"labels":{"a":"b"}}}`, 200, "-"), merge(`{"spec":`+gjson.Get(leanDefinition(schema("integer"), schema("string")), "spec").Raw+`}`, 422, denied))
	a.run(replace("integer", 422, denied), replace("string", 200, "-"))
}
