package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// leanDefinition is a definition with two versions, with these schemas.
func leanDefinition(first, second string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com",` +
		`"scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"versions":[` +
		`{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":` + first + `}},` +
		`{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":` + second + `}}]}}`
}

// FuzzDefinitionSchemas checks that a new definition is stored, and causes the same warnings and errors, whether or not its schemas stay text.
func FuzzDefinitionSchemas(f *testing.F) {
	a := newAPI(f)
	const plain = `{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string"}}}}}`
	for _, text := range []string{plain, `{"type":"object"}`, `{"properties":{"spec":{"properties":{"b":{"type":"integer"},"a":{"type":"string","format":"nosuch"}},"type":"object"}},"type":"object"}`,
		`{}`, `{"type":"string"}`, `{"type":"object","nosuch":1}`, `{"type":"object","type":"object"}`, `{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-validations":[{"rule":"self.a == 1"}]}}}`,
		`{"type":"object","properties":{"spec":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"object","x-kubernetes-map-type":"atomic"}}}}`,
		`{"type":"object","properties":{"spec":{"type":"string","default":"<a>"},"n":{"type":"number","default":1.5,"minimum":0.5}}}`, `{"type":"object","description":"é < \"x\""}`,
		`{"type":"object","properties":{"spec":{"type":"integer","default":"a"}}}`, `{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string"}}}}}`,
		`null`, `1`, `[]`, `"a"`, `{"type":"object","description":"schema 0"}`, `{"type":"object","properties":null}`,
		`{"type":"object","enum":[]}`, `{"type":"object","x-kubernetes-list-map-keys":[],"properties":{"a":{"type":"object","required":[]}}}`, `{"type":"object","patternProperties":{}}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true"},{"rule":"true","message":"again"}]}`} {
		f.Add(text, text, false)
		f.Add(text, plain, true)
	}
	for _, text := range aroundParts() {
		f.Add(text, plain, true)
		f.Add(plain, text, false)
	}
	f.Fuzz(func(t *testing.T, first, second string, strict bool) {
		validations := []string{"Warn", "Ignore"}
		if strict {
			validations = []string{"Strict"}
		}
		body := leanDefinition(first, second)
		for _, validation := range validations {
			a.alike(t, "POST", definitions+"?dryRun=All&fieldManager=f&fieldValidation="+validation, says{"Content-Type": "application/json"}, body)
			a.alike(t, "PATCH", definitions+"/widgets.example.com?dryRun=All&fieldManager=f&fieldValidation="+validation, asApply, body)
		}
	})
}

// If a schema is a duplicate member, and both values are known parts, upstream merges the second into the first.
func TestSchemaGivenTwice(t *testing.T) {
	a := newAPI(t)
	const first, second = `{"type":"object","description":"first"}`, `{"type":"object"}`
	body := strings.Replace(leanDefinition(second, first), `"schema":`, `"schema":{"openAPIV3Schema":`+first+`},"schema":`, 1)
	for _, validation := range []string{"Ignore", "Warn", "Strict"} {
		a.alike(t, "POST", definitions+"?dryRun=All&fieldValidation="+validation, says{"Content-Type": "application/json"}, body)
	}
}

// aroundParts returns schemas with a valid part at valid and at invalid places. The first one makes the part known.
func aroundParts() (schemas []string) {
	const filling = `"properties":{"size":{"type":"integer","description":"a text that makes a part long enough to be worth it, which is some hundred characters or more",` +
		`"default":%s},"kind":{"type":"string"},"a":{"type":"object","properties":{"b":{"type":"string"}}}}`
	object := fmt.Sprintf(`{"type":"object",`+filling+`}`, "1")
	wrong := fmt.Sprintf(`{"type":"object",`+filling+`}`, `"x"`)
	array := `{"type":"array","items":` + object + `}`
	spec := func(format string, parts ...any) {
		schemas = append(schemas, `{"type":"object","properties":{"spec":`+fmt.Sprintf(format, parts...)+`}}`)
	}
	spec("%s", object)
	spec(`{"type":"object","additionalProperties":%s}`, wrong)
	spec("%s", wrong)
	spec(`{"type":"object","properties":{"list":%s}}`, array)
	spec(`{"type":"object","properties":{"list":%s}}`, strings.Replace(array, `{"type":"array",`, `{"type":"array","x-kubernetes-list-type":"set",`, 1))
	for _, key := range []string{"size", "kind", "a", "none"} {
		spec(`{"type":"object","properties":{"list":%s}}`, strings.Replace(array, `{"type":"array",`, `{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["`+key+`"],`, 1))
	}
	for _, rule := range []string{"self.a.size == 1", "self.a.none == 1", "self.a.size == 'x'", "has(self.a.a.b)"} {
		spec(`{"type":"object","properties":{"a":%s},"x-kubernetes-validations":[{"rule":%q}]}`, object, rule)
	}
	spec(`{"type":"object","properties":{"a":%s},"x-kubernetes-validations":[{"rule":"true","fieldPath":".a.size"}]}`, object)
	spec(`{"type":"object","properties":{"a":%s},"default":{"a":{"size":2}}}`, object)
	spec(`{"type":"object","properties":{"a":%s},"default":{"a":{"size":"x"}}}`, object)
	spec(`{"type":"object","properties":{"a":%s},"default":{"a":{"none":1}}}`, object)
	spec(`{"type":"object","properties":{"a":%s},"anyOf":[{"properties":{"a":{"properties":{"size":{"minimum":1}}}}}]}`, object)
	spec(`{"type":"object","properties":{"a":%s},"anyOf":[{"properties":{"a":{"properties":{"none":{"minimum":1}}}}}]}`, object)
	spec(`{"type":"object","properties":{"a":%s},"not":{"required":["a"]}}`, object)
	spec(`{"type":"object","properties":{"kind":%[1]s,"metadata":%[1]s},"x-kubernetes-embedded-resource":true}`, object)
	spec(`{"type":"object","properties":{"a":%s},"additionalProperties":{"type":"string"}}`, object)
	spec(`{"type":"string","properties":{"a":%s}}`, object)
	spec(`{"anyOf":[%s]}`, object)
	spec("%s", strings.Replace(object, `{"type":"object"`, `{"type":"array"`, 1))
	spec("%s", strings.Replace(object, `{"type":"object"`, `{"nullable":true,"type":"object"`, 1))
	for _, part := range []string{object, wrong} {
		spec(`{"type":"object","properties":{"a":%s,"b":{"type":"array","items":%s}}}`, part, part)
		spec(`{"type":"object","properties":{"b":{"type":"object","additionalProperties":%s},"c":%s}}`, part, part)
		for _, key := range []string{"k", "v"} {
			spec(`{"type":"object","properties":{"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["`+key+`"],
				"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":%s}}}}}`, part)
		}
	}
	list := `{"type":"array","items":{"type":"string","maxLength":9},"x-kubernetes-validations":[{"rule":"self.all(x, self.exists(y, x == y))"},{"rule":"self == oldSelf"}],"maxItems":99}`
	for _, around := range []string{`%s`, `{"type":"object","properties":{"a":%s}}`, `{"type":"array","items":%s,"maxItems":5}`, `{"type":"object","additionalProperties":%s,"maxProperties":5}`,
		`{"type":"object","additionalProperties":%s}`, `{"type":"object","properties":{"a":%s},"default":{"a":["x"]}}`, `{"type":"object","properties":{"a":%s},"default":{"a":["0123456789"]}}`,
		`{"type":"object","properties":{"metadata":%s},"x-kubernetes-embedded-resource":true}`, `{"type":"object","properties":{"a":%s},"x-kubernetes-map-type":"atomic"}`} {
		spec(around, list)
	}
	for _, name := range []string{"metadata", "kind", "apiVersion"} {
		schemas = append(schemas, `{"type":"object","properties":{"`+name+`":`+object+`}}`)
	}
	schemas = append(schemas, `{"type":"object","nullable":true,"properties":{"spec":`+object+`}}`, `{"type":"object","additionalProperties":`+object+`}`)
	return schemas
}

// Published definitions are supported, in kubectl's order of members, and stored the same as without the fast path.
func TestPublishedDefinitionsAsText(t *testing.T) {
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
		var sorted map[string]any
		if err := json.Unmarshal(text, &sorted); err != nil {
			t.Fatal(err)
		}
		if text, err = json.Marshal(sorted); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			a.alike(t, "PATCH", definitions+"/"+crd.Name+"?dryRun=All&fieldManager=f", asApply, string(text))
		} else {
			a.alike(t, "POST", definitions+"?dryRun=All&fieldManager=f", says{"Content-Type": "application/json"}, string(text))
		}
	}
	if n := fastpath.DefinitionSchemas.Fallbacks() - before; n != 0 {
		t.Errorf("%d of %d definitions went whole", n, len(published))
	}
}

// A definition that was valid when created is known when it is changed, and so are its parts in another definition.
func TestWhatWasNewIsKnown(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true)) // without some fast paths upstream's code reads every definition
	a := newAPI(t)
	// Nothing in these schemas is plain, so their first validation reads all of them.
	spec := func(most int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"spec":{"type":"object","maxProperties":%d,"not":{"required":["x"]},"properties":{"size":{"type":"integer",
			"description":"a text that makes a part long enough to be worth it, which is some hundred characters or more"}}}}}`, most)
	}
	body := leanDefinition(spec(2), spec(3))
	read := func(n int64, e exchange) {
		t.Helper()
		before := fastpath.Definitions.Fallbacks()
		a.run(e)
		if got := fastpath.Definitions.Fallbacks() - before; got != n {
			t.Errorf("%s: schemas were read as a whole %d times, want %d", e.do, got, n)
		}
	}
	other := strings.ReplaceAll(body, "example.com", "example.org")
	read(1, exchange{do: "POST " + definitions, body: body, code: 201})
	read(0, exchange{do: "POST " + definitions, body: other, code: 201})
	read(0, exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200})
	versions := func(schema string) exchange {
		return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"names":{"shortNames":["w"]},"scope":"Namespaced",
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + schema + `}}]}}`, code: 200}
	}
	read(0, versions(spec(2)))
	read(1, versions(spec(4)))
	unknown := strings.Replace(strings.ReplaceAll(body, "example.com", "example.net"), `"type":"integer",`, `"type":"integer","format":"unknown",`, 1)
	read(1, exchange{do: "POST " + definitions, body: unknown, code: 201}) // for the warning about the format; the second schema is known
}

// Admission policies see the schemas of a new definition, and errors in a schema are the usual ones.
func TestSchemasAreShownWhole(t *testing.T) {
	t.Cleanup(fastpath.TurnAll(true)) // without some fast paths upstream's code reads every object
	a := newAPI(t)
	schema := func(typ string) string {
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"` + typ + `"}}}}}`
	}
	create := func(typ string, code int, message string) exchange {
		return exchange{do: "POST " + definitions + "?dryRun=All", body: leanDefinition(schema(typ), schema("string")), code: code, says: says{"message": message}}
	}
	fallbacks := func(e exchange) int64 {
		before := fastpath.DefinitionSchemas.Fallbacks()
		a.run(e)
		return fastpath.DefinitionSchemas.Fallbacks() - before
	}
	if n := fallbacks(create("integer", 201, "-")); n != 0 {
		t.Errorf("%d fallbacks where nobody looks", n)
	}
	sized := policy("sized", "apiextensions.k8s.io", "customresourcedefinitions", `"validations":[{"expression":
		"object.spec.versions.all(v, v.schema.openAPIV3Schema.properties.spec.properties.size.type != 'integer')","message":"no numbers"}]`)
	a.run(exchange{do: "POST " + validatingPolicies, code: 201, body: sized},
		exchange{do: "POST " + validatingBindings, code: 201, body: binding("all", "sized", `,"validationActions":["Deny"]`)})
	const refused = `customresourcedefinitions.apiextensions.k8s.io "widgets.example.com" is forbidden: ValidatingAdmissionPolicy 'sized' with binding 'all' denied request: no numbers`
	if n := fallbacks(create("integer", 422, refused)); n != 1 {
		t.Errorf("%d fallbacks where a policy looks", n)
	}
	a.run(create("boolean", 201, "-"))
	for i := range 2 { // a known and an unknown field manager
		a.run(exchange{do: fmt.Sprintf("POST %s?dryRun=All&fieldManager=f%d", definitions, i), body: leanDefinition(schema("nosuch"), schema("string")), code: 422})
	}
}
