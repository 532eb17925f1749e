package handlers_test

import (
	"strings"
	"testing"
)

// "Server-Side Apply" and "HTTP PATCH using Server-Side Apply".
func TestServerSideApply(t *testing.T) {
	apply := func(manager, data string) exchange {
		return exchange{do: "PATCH " + configMaps + "/a?fieldManager=" + manager, header: asApply, code: 200,
			body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: " + data}
	}
	with := func(e exchange, code int, s says) exchange {
		e.code, e.says = code, s
		return e
	}
	newAPI(t).run(
		with(apply("one", "{w: '1', x: '1'}"), 201, says{"data": `{"w":"1","x":"1"}`, "metadata.managedFields.#": "1",
			"metadata.managedFields.0.manager": "one", "metadata.managedFields.0.operation": "Apply",
			"metadata.managedFields.0.fieldsV1": `{"f:data":{"f:w":{},"f:x":{}}}`}),
		with(apply("two", "{x: '2'}"), 409, says{"reason": "Conflict", "message": `Apply failed with 1 conflict: conflict with "one": .data.x`,
			"details.causes": `[{"reason":"FieldManagerConflict","message":"conflict with \"one\"","field":".data.x"}]`}),
		with(apply("two", "{x: '1'}"), 200, says{"metadata.managedFields.#": "2"}),
		exchange{shows: "what one leaves out stays, for two owns it too", do: apply("one", "").do, header: asApply,
			body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {}", code: 200, says: says{"data": `{"x":"1"}`}},
		with(apply("two", "{z: '3'}"), 200, says{"data": `{"z":"3"}`}),
		with(apply("three&force=true", "{z: '4'}"), 200, says{"data.z": "4", "metadata.managedFields.#": "2"}),
		exchange{shows: "an update owns what it changes", do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"z":"5"}}`, code: 200,
			says: says{`metadata.managedFields.#(manager=="test").operation`: "Update"}},
		exchange{shows: "a manager has to be named", do: "PATCH " + configMaps + "/a", header: asApply, body: "apiVersion: v1\nkind: ConfigMap", code: 422,
			says: says{"details.causes.0.field": "fieldManager"}},
		exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: asApply, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {uid: u}", code: 422},
		exchange{do: "PATCH " + configMaps + "/none?fieldManager=m", header: asApply, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: none, uid: u}", code: 409,
			says: says{"message": `Operation cannot be fulfilled on configmaps "none": uid mismatch: the provided object specified uid u, and no existing object was found`}},
		exchange{shows: "managedFields are dropped by one empty entry", do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"metadata":{"managedFields":[{}]}}`,
			code: 200, says: says{"metadata.managedFields": "-"}},
	)
}

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},` +
	`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`

// Subresources have separate managers, and scale shares the ownership of spec.replicas with its parent.
func TestManagersOfSubresources(t *testing.T) {
	d := "/apis/apps/v1/namespaces/test/deployments/d"
	newAPI(t).run(
		exchange{do: "PATCH " + d + "?fieldManager=m", header: asApply, body: deployment, code: 201},
		exchange{do: "PATCH " + d + "/scale", header: asMergePatch, body: `{"spec":{"replicas":3}}`, code: 200,
			says: says{"kind": "Scale", "apiVersion": "autoscaling/v1", "spec.replicas": "3", "metadata.managedFields": "-"}},
		exchange{do: "PATCH " + d + "?fieldManager=m", header: asApply, body: deployment, code: 409,
			says: says{"details.causes.0.message": `conflict with "test" with subresource "scale" using apps/v1`, "details.causes.0.field": ".spec.replicas"}},
		exchange{do: "PATCH " + d + "/status", header: asMergePatch, body: `{"spec":{"replicas":9},"status":{"replicas":2}}`, code: 200,
			says: says{"spec.replicas": "3", "status.replicas": "2", `metadata.managedFields.#(subresource=="status").fieldsV1`: `{"f:status":{"f:replicas":{}}}`}},
		exchange{do: "PATCH " + d, header: asMergePatch, body: `{"status":{"replicas":7}}`, code: 200, says: says{"status.replicas": "2"}},
		exchange{do: "GET " + d + "/scale", code: 200, says: says{"spec.replicas": "3", "status.replicas": "2", "status.selector": "a=b"}},
		exchange{do: "GET " + d + "/scale", header: asTable, code: 200, says: says{"kind": "Table", "columnDefinitions.1.name": "Desired",
			"rows.0.cells.1": "3", "rows.0.object.metadata.name": "d"}},
		exchange{do: "PUT " + d + "/scale", body: `{"metadata":{"name":"d"},"spec":{"replicas":-1}}`, code: 422, says: says{"details.causes.0.field": "spec.replicas"}},
		exchange{do: "PUT " + d + "/scale", body: `{"metadata":{"name":"d","uid":"other"},"spec":{"replicas":1}}`, code: 409},
		exchange{do: "GET " + d, code: 200, says: says{"metadata.generation": "2"}},
	)
}

// An empty caBundle counts as none: applying it again changes nothing.
func TestEmptyBundlesChangeNothing(t *testing.T) {
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		of := "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(kind) + "s/w"
		body := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"w"},"webhooks":[{"name":"a.b.c","sideEffects":"None",` +
			`"admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1","caBundle":""}}]}`
		same := says{"metadata.generation": "1", "metadata.resourceVersion": "{rv}", "webhooks.0.clientConfig.caBundle": "-"}
		newAPI(t).run(
			exchange{do: "PATCH " + of + "?fieldManager=m", header: asApply, body: body, code: 201, keep: says{"rv": "metadata.resourceVersion"}},
			exchange{do: "PATCH " + of + "?fieldManager=m", header: asApply, body: body, code: 200, says: same},
			exchange{do: "PATCH " + of, header: asMergePatch, body: body, code: 200, says: same},
		)
	}
}
