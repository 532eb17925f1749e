package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzAppliedDefinitions: a configuration that is applied to a definition, by its manager or another one, by force or not, makes the same of it, and is
// warned of and refused the same, whether schemas go as text or not.
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
	}
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
		options := fmt.Sprintf("?dryRun=All&fieldManager=%s&force=%t&fieldValidation=%s", []string{"f", "g"}[how%2], how/2%2 == 1, []string{"Strict", "Warn"}[how/4%2])
		a.alike(t, "PATCH", path+options, asApply, change)
	})
}

// Published definitions that are applied again, with a label or by somebody else are not read whole, and what is stored is the same.
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
	}
	if n := fastpath.DefinitionSchemas.Fallbacks() - before; n != 0 {
		t.Errorf("%d times of %d a definition was read whole", n, len(published))
	}
}

// Who looks at an update sees the schemas of both objects.
func TestSchemasOfUpdatesAreShownWhole(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true))
	a := newAPI(t)
	schema := func(typ string) string {
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"` + typ + `"}}}}}`
	}
	apply := func(typ string, code int, message string) exchange {
		return exchange{do: "PATCH " + definitions + "/widgets.example.com?fieldManager=f", header: asApply, body: leanDefinition(schema(typ), schema("string")), code: code, says: says{"message": message}}
	}
	a.run(apply("string", 201, "-"),
		exchange{do: "POST " + validatingPolicies, code: 201, body: policy("sized", "apiextensions.k8s.io", "customresourcedefinitions", `"validations":[{"expression":
			"object.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.type == oldObject.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.type",
			"message":"sizes stay"}]`)},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("all", "sized", `,"validationActions":["Deny"]`)},
		apply("integer", 422, `customresourcedefinitions.apiextensions.k8s.io "widgets.example.com" is forbidden: ValidatingAdmissionPolicy 'sized' with binding 'all' denied request: sizes stay`),
		apply("string", 200, "-"), apply("string", 200, "-"), apply("string", 200, "-")) // which is remembered, and looked at all the same
}
