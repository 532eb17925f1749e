package handlers_test

import (
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// imported replaces text in a stored definition: the result is as a definition of an earlier release, which no client can write.
func (a *api) imported(name, old, replacement string) {
	a.Helper()
	key := resources.Key{Resource: "customresourcedefinitions.apiextensions.k8s.io", Name: name}
	o, err := a.store.Get(a.Context(), key, resources.At{Match: resources.MostRecent})
	if err != nil {
		a.Fatal(err)
	}
	data := strings.Replace(string(o.Data), old, replacement, 1)
	start, end, ok := resources.RevisionSpan([]byte(data))
	if !ok || data == string(o.Data) {
		a.Fatalf("%q is not in %s", old, o.Data)
	}
	draft := resources.Draft{Data: []byte(data), RevisionStart: start, RevisionEnd: end, Labels: o.Labels}
	if _, err := a.store.Commit(a.Context(), resources.Write{Op: resources.Update, Key: key, From: o.Revision, Draft: draft}); err != nil {
		a.Fatal(err)
	}
}

// Objects of an imported definition with preserveUnknownFields keep the fields that its schema does not have, through every write, until the
// definition prunes.
func TestPreserveUnknownFields(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		const schema = `{"type":"object","properties":{"size":{"type":"integer"},"template":{"type":"object","x-kubernetes-embedded-resource":true,
			"x-kubernetes-preserve-unknown-fields":true}}}`
		const definition = definitions + "/widgets.example.com"
		v1, v2 := widgetVersion("v1", schema, true), widgetVersion("v2", schema, false)
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(v1, v2), code: 201})
		a.imported("widgets.example.com", `"scope":`, `"preserveUnknownFields":true,"scope":`)
		const whole = `{"null":null,"other":{"a":[1]},"size":1}`
		a.run(exchange{do: "GET " + widgets, code: 200}, exchange{do: "GET " + widgets, code: 200},
			exchange{do: "POST " + widgets + "?fieldValidation=Strict", body: widget("a", whole), code: 201, says: says{"spec": whole}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"more":2}}`, code: 200, says: says{"spec.more": "2", "spec.other": `{"a":[1]}`}},
			exchange{do: "PATCH " + widgetsAsV2 + "/a", header: asJSONPatch, body: `[{"op":"remove","path":"/spec/more"}]`, code: 200, says: says{"spec": whole}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": whole}},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=m", header: asApply, body: widget("b", `{"other":{"a":1},"size":1}`), code: 201,
				says: says{"spec": `{"other":{"a":1},"size":1}`, "metadata.managedFields.0.fieldsV1": `{"f:spec":{"f:other":{".":{},"f:a":{}},"f:size":{}}}`}},
			exchange{do: "PATCH " + widgets + "/b?fieldManager=m", header: asApply, body: widget("b", `{"other":{"b":1},"size":1}`), code: 200,
				says: says{"spec": `{"other":{"b":1},"size":1}`}},
			exchange{do: "POST " + widgets, body: widget("c", `{"template":{"apiVersion":"v1","kind":"Pod","metadata":{"name":1}}}`), code: 400},
			exchange{do: "POST " + widgets, body: widget("c", `{"size":"one","other":1}`), code: 422},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"metadata":{"labels":{"a":"b"}}}`, code: 200,
				says: says{"spec.preserveUnknownFields": "true", `status.conditions.#(type=="NonStructuralSchema").message`: "spec.preserveUnknownFields: Invalid value: true: must be false"}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": whole}},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"spec":{"preserveUnknownFields":false}}`, code: 200,
				says: says{"spec.preserveUnknownFields": "-", `status.conditions.#(type=="NonStructuralSchema").reason`: "-"}},
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"size":1}`}},
			exchange{do: "GET " + widgetsAsV2 + "/b", code: 200, says: says{"spec": `{"size":1}`}},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"spec":{"preserveUnknownFields":true}}`, code: 422})
	})
}

// Imported schemas that are not structural are served, and named in a condition until they are mended. The texts are kube-apiserver's.
func TestNonStructuralSchema(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		const schema, definition = `{"type":"object","properties":{"size":{"type":"integer"}}}`, definitions + "/widgets.example.com"
		const preserves = "spec.preserveUnknownFields: Invalid value: true: must be false"
		const untyped = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields"
		condition := func(reason, message string) says {
			status := "True"
			if message == "-" {
				status = "-"
			}
			const c = `status.conditions.#(type=="NonStructuralSchema").`
			return says{c + "status": status, c + "reason": reason, c + "message": message}
		}
		edit := func(patch string, says says) exchange {
			return exchange{do: "PATCH " + definition, header: asMergePatch, body: patch, code: 200, says: says}
		}
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", schema, true)), code: 201, says: condition("-", "-")})
		a.imported("widgets.example.com", `"scope":`, `"preserveUnknownFields":true,"scope":`)
		a.imported("widgets.example.com", `"size":{"type":"integer"}`, `"size":{}`)
		a.run(edit(`{"metadata":{"labels":{"a":"b"}}}`, condition("Violations", "["+preserves+", "+untyped+"]")),
			exchange{do: "POST " + widgets, body: widget("a", `{"size":"any","other":1}`), code: 201, says: says{"spec": `{"other":1,"size":"any"}`}},
			exchange{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"size":2}}`, code: 200, says: says{"spec": `{"other":1,"size":2}`}},
			exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"spec":{"preserveUnknownFields":false}}`, code: 422},
			edit(`{"spec":{"versions":[`+widgetVersion("v1", schema, true)+`]}}`, condition("Violations", preserves)),
			edit(`{"spec":{"preserveUnknownFields":false}}`, condition("-", "-")),
			exchange{do: "GET " + widgets + "/a", code: 200, says: says{"spec": `{"size":2}`}})
	})
}

// A definition in a group of the community has a condition that says whether its API was approved (KEP-1111). The texts are kube-apiserver's. Only
// imported definitions have no annotation, or an invalid one.
func TestApprovalOfCommunityGroups(t *testing.T) {
	a := newAPI(t)
	const name, url = "widgets.example.k8s.io", "https://github.com/kubernetes/kubernetes/pull/1111"
	const annotation = `"api-approved.kubernetes.io":`
	const missing, see = `protected groups must have approval annotation "api-approved.kubernetes.io"`, ", see https://github.com/kubernetes/enhancements/pull/1111"
	const definition = definitions + "/" + name
	is := func(status, reason, message string) says {
		const c = `status.conditions.#(type=="KubernetesAPIApprovalPolicyConformant").`
		return says{c + "status": status, c + "reason": reason, c + "message": message}
	}
	body := func(annotations string) string {
		return strings.NewReplacer("example.com", "example.k8s.io", `"metadata":{`, `"metadata":{"annotations":{`+annotations+`},`).Replace(widgetDefinition(widgetVersion("v1", widgetSpec, true)))
	}
	edit := func(patch string, code int, says says) exchange {
		return exchange{do: "PATCH " + definition, header: asMergePatch, body: `{"metadata":` + patch + `}`, code: code, says: says}
	}
	approved := is("True", "ApprovedAnnotation", "approved in "+url)
	a.run(exchange{do: "POST " + definitions, body: body(""), code: 422}, exchange{do: "POST " + definitions, body: body(annotation + `"me"`), code: 422},
		exchange{do: "POST " + definitions, body: body(annotation + `"` + url + `"`), code: 201, says: approved},
		edit(`{"annotations":{`+annotation+`"unapproved, for a test"}}`, 200, is("False", "UnapprovedAnnotation", `not approved: "unapproved, for a test"`)),
		edit(`{"annotations":{`+annotation+`"me"}}`, 422, nil), edit(`{"annotations":{`+annotation+`null}}`, 422, nil),
		edit(`{"annotations":{`+annotation+`"`+url+`"}}`, 200, approved),
		exchange{do: "GET /apis/example.k8s.io/v1/widgets", code: 200})
	a.imported(name, annotation+`"`+url+`"`, annotation+`"me"`)
	a.run(edit(`{"labels":{"a":"b"}}`, 200, is("False", "InvalidAnnotation", missing+` with either a URL or a reason starting with "unapproved"`+see)))
	a.imported(name, annotation+`"me"`, `"other":"me"`)
	a.run(edit(`{"labels":{"a":"c"}}`, 200, is("False", "MissingAnnotation", missing+see)),
		exchange{do: "GET /apis/example.k8s.io/v1/widgets", code: 200},
		edit(`{"annotations":{`+annotation+`"`+url+`"}}`, 200, approved))
}
