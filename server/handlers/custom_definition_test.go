package handlers_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A definition whose webhook has an invalid caBundle is served once the caBundle is corrected.
func TestInvalidAuthorityOfConversion(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		established := func(status, reason string) says {
			return says{`status.conditions.#(type=="Established").status`: status, `status.conditions.#(type=="Established").reason`: reason}
		}
		a.run(
			exchange{do: "POST " + definitions, body: strings.Replace(widgetDefinition(widgetVersion("v1", widgetSpec, true)), `"versions"`,
				`"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://hook.invalid","caBundle":"YmFk"}}},"versions"`, 1),
				code: 201, says: established("False", "InvalidCABundle")},
			exchange{do: "GET " + widgets, code: 500, says: says{"message": "Internal error occurred: error resolving resource"}},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`,
				code: 200, says: established("False", "InvalidCABundle")},
			exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch,
				body: `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`, code: 200, says: established("True", "InitialNamesAccepted")},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
		)
	})
}

// A null that the schema does not allow is dropped from a create or patch, and rejected in an apply: an applier removes a field by omitting it.
func TestApplyOfNull(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		a.run(
			exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", `{"type":"object","properties":{"plain":{"type":"object"},
				"free":{"type":"object","nullable":true},"filled":{"type":"string","default":"x"}}}`, true)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"plain":null,"free":null,"filled":null}`), code: 201, says: says{"spec": `{"filled":"x","free":null}`}},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=me&force=true", header: asApply, body: widget("a", `{"free":null,"filled":null}`), code: 200,
				says: says{"spec": `{"filled":"x","free":null}`}},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=me&force=true", header: asApply, body: widget("a", `{"plain":null}`), code: 422,
				says: says{"message": `Widget.example.com "a" is invalid: spec.plain: Invalid value: "null": spec.plain in body must be of type object: "null"`}},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=me", header: asApply, body: widget("b", `{"plain":null}`), code: 422},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"plain":{}}}`, code: 200, says: says{"spec.plain": "{}"}},
			exchange{do: "PATCH " + widgets + "/a", header: asJSONPatch, body: `[{"op":"replace","path":"/spec/plain","value":null}]`, code: 200, says: says{"spec.plain": "-"}},
		)
	})
}

// A request for a deprecated version gets a warning whatever the response is, unless the path does not exist.
func TestWarningOfDeprecatedVersion(t *testing.T) {
	a := newAPI(t)
	warned := says{"Warning": `299 - "v1 will go"`}
	old := strings.Replace(widgetVersion("v1", widgetSpec, true), `{"name":"v1",`, `{"name":"v1","deprecated":true,"deprecationWarning":"v1 will go",`, 1)
	a.run(
		exchange{do: "POST " + definitions, body: widgetDefinition(old, widgetVersion("v2", widgetSpec, false)), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201, answer: warned},
		exchange{do: "GET " + widgets, code: 200, answer: warned},
		exchange{do: "GET " + widgets + "/none", code: 404, answer: warned},
		exchange{do: "GET " + widgets + "/a/none", code: 404, answer: warned},
		exchange{do: "PUT " + widgets, body: "{}", code: 400, answer: warned},
		exchange{do: "POST " + widgets + "/a/scale", body: "{}", code: 405, answer: warned},
		exchange{do: "PATCH " + widgets + "/a", header: says{"Content-Type": "application/strategic-merge-patch+json"}, body: "{}", code: 415, answer: warned},
		exchange{do: "GET " + widgetsAsV2, code: 200, answer: says{"Warning": ""}},
		exchange{do: "GET /apis/example.com/v1/widgets/a", code: 404, answer: says{"Warning": ""}},
	)
}

// A watch of a version that is no longer served ends with its last events, even if the store was unavailable at that moment.
func TestEndOfVersionIsToldByUnavailableStore(t *testing.T) {
	a := newAPI(t)
	v1, v2 := widgetVersion("v1", widgetSpec, false), widgetVersion("v2", widgetSpec, true)
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(v1, v2), code: 201})
	w := a.watch(a.listen(), widgets, nil)
	a.store.failed = make(chan struct{}, 1)
	a.store.silent.Store("widgets.example.com")
	a.run(exchange{do: "POST " + widgets, body: widget("last", `{"size":1}`), code: 201},
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch,
			body: `{"spec":{"versions":[` + strings.Replace(v1, `"served":true`, `"served":false`, 1) + `,` + v2 + `]}}`, code: 200},
		exchange{do: "GET " + widgets, code: 404})
	line := make(chan string, 1)
	go func() {
		l, _ := w.lines.ReadString('\n') // empty at the end of the watch
		line <- l
	}()
	for range 3 { // the second attempt notices the end
		select {
		case <-a.store.failed:
		case l := <-line:
			t.Fatalf("the store has not answered, and the watch has ended or told %q", l)
		}
	}
	a.store.silent.Store("")
	if l := <-line; gjson.Get(l, "type").Str != "ADDED" || gjson.Get(l, "object.metadata.name").Str != "last" {
		t.Errorf("the last event is %q", l)
	}
	w.ends()
}

// A schema may be nested more deeply than the fast JSON decoder supports.
func TestDeepSchema(t *testing.T) {
	a := newAPI(t)
	schema, spec := `{"type":"string"}`, `"deep"`
	for range 150 {
		schema, spec = `{"type":"object","properties":{"a":`+schema+`}}`, `{"a":`+spec+`}`
	}
	a.run(
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", schema, true)), code: 201},
		exchange{do: "POST " + widgets, body: widget("deep", strings.Replace(spec, `"deep"`, `"deep","pruned":1`, 1)), code: 201, says: says{"spec": spec}},
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch,
			body: `{"spec":{"versions":[` + widgetVersion("v1", strings.Replace(schema, `"string"`, `"integer"`, 1), true) + `]}}`, code: 200},
		exchange{do: "POST " + widgets, body: widget("other", spec), code: 422},
	)
}

// Whole numbers in an apply as YAML remain integers, as CEL rules and large numbers require.
func TestApplyOfWholeNumbers(t *testing.T) {
	a := newAPI(t)
	apply := func(size string, code int) exchange {
		return exchange{do: "PATCH " + widgets + "/a?fieldManager=me", header: asApply, code: code,
			body: "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: a # as YAML has it\nspec:\n  size: " + size + "\n"}
	}
	grown := apply("9007199254740993", 200) // not representable as a float64
	grown.says = says{"spec.size": "9007199254740993"}
	a.run(exchange{do: "POST " + definitions, code: 201, body: widgetDefinition(widgetVersion("v1", `{"type":"object","properties":{"size":{"type":"integer"}},
			"x-kubernetes-validations":[{"rule":"self.size >= oldSelf.size"}]}`, true))},
		apply("1", 201), apply("2", 200), grown, apply("1", 422))
}

// Names that are invalid are rejected in a status, too. Clients cannot set other names there: a definition keeps its accepted names.
func TestNamesInStatus(t *testing.T) {
	a := newAPI(t)
	names := func(kind string) string { return `{"status":{"acceptedNames":{"kind":"` + kind + `"}}}` }
	const status = definitions + "/widgets.example.com/status"
	a.run(
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "PATCH " + status, header: asMergePatch, body: names("no kind"), code: 422, says: says{"reason": "Invalid", "details.causes.#.field": `["status.acceptedNames.kind"]`}},
		exchange{do: "PATCH " + status + "?dryRun=All", header: asMergePatch, body: names("no kind"), code: 422},
		exchange{do: "PATCH " + status, header: asMergePatch, body: names("Gadget"), code: 200, says: says{"status.acceptedNames.kind": "Widget"}},
		exchange{do: "PATCH " + status, header: asMergePatch, body: names(""), code: 200, says: says{"status.acceptedNames.kind": "Widget"}},
	)
}

// Unknown fields of embedded resources' metadata are removed from defaults, at every write of the definition.
func TestMetadataInDefaults(t *testing.T) {
	a := newAPI(t)
	spec := `{"type":"object","properties":{"template":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,
		"default":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","creationTimestamp":null,"nosuch":1},"nosuch":1}}}}`
	body := widgetDefinition(widgetVersion("v1", spec, true))
	kept := says{"spec.versions.0.schema.openAPIV3Schema.properties.spec.properties.template.default": `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"nosuch":1}`}
	a.run(
		exchange{do: "POST " + definitions + "?dryRun=All", body: body, code: 201, says: kept},
		exchange{do: "POST " + definitions, body: body, code: 201, says: kept},
		exchange{do: "PATCH " + definitions + "/widgets.example.com?fieldManager=me&force=true", header: asApply, body: body, code: 200, says: kept},
		exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: body, code: 200, says: kept},
		exchange{do: "POST " + widgets, body: widget("a", `{}`), code: 201, says: says{"spec.template.metadata": `{"name":"a"}`}},
	)
	root := `{"type":"object","default":{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a","nosuch":1}},"x-kubernetes-preserve-unknown-fields":true}`
	body = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` + root + `}}]}}`
	kept = says{"spec.versions.0.schema.openAPIV3Schema.default": `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`}
	a.run(
		exchange{do: "POST " + definitions + "?dryRun=All", body: body, code: 201, says: kept},
		exchange{do: "POST " + definitions, body: body, code: 201, says: kept},
	)
}

// A dry run shows the status that a definition has, or that of a new one before controllers see it, as kube-apiserver does: "kubectl diff" shows only
// what a user changes. It reports what the write would refuse.
func TestDryRunOfDefinition(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		body := widgetDefinition(widgetVersion("v1", widgetSpec, true))
		renamed := strings.Replace(body, `"wd"`, `"wi"`, 1)
		const one, dry = definitions + "/widgets.example.com", "?dryRun=All&fieldManager=me"
		empty := says{"status": `{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}`, "metadata.managedFields.#.manager": `["me"]`}
		kept := says{"spec.names.shortNames": `["wi"]`, "status.acceptedNames.shortNames": `["wd"]`, "metadata.generation": "2",
			`status.conditions.#(type=="Established").status`: "True"}
		a.run(
			exchange{do: "POST " + definitions + dry, body: body, code: 201, says: empty},
			exchange{do: "PATCH " + one + dry, header: asApply, body: body, code: 201, says: empty},
			exchange{do: "POST " + definitions + dry, body: strings.ReplaceAll(body, "example.com", "rowlock.internal"), code: 403},
			exchange{do: "POST " + definitions, body: body, code: 201},
			exchange{do: "POST " + definitions + dry, body: body, code: 409},
			exchange{do: "PATCH " + one + dry, header: asMergePatch, body: `{"spec":{"names":{"shortNames":["wi"]}}}`, code: 200, says: kept},
			exchange{do: "PATCH " + one + dry + "&force=true", header: asApply, body: renamed, code: 200, says: kept},
			exchange{do: "GET " + one, code: 200, says: says{"metadata.generation": "1", "spec.names.shortNames": `["wd"]`}},
			exchange{do: "PATCH " + one, header: asMergePatch, body: `{"spec":{"names":{"shortNames":["wi"]}}}`, code: 200, says: says{"status.acceptedNames.shortNames": `["wi"]`}},
		)
	})
}
