package handlers_test

import "testing"

// "Field validation": the treatment of unknown and duplicate fields in a body or a patch.
func TestFieldValidation(t *testing.T) {
	const (
		spare = `{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"spare":1}`
	)
	newAPI(t).run(
		exchange{do: "POST " + configMaps + "?fieldValidation=Strict", body: spare, code: 400, says: says{"reason": "BadRequest",
			"message": `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: duplicate field "data.k", unknown field "spare"`}},
		exchange{do: "POST " + configMaps + "?fieldValidation=Ignore", body: spare, code: 201, answer: says{"Warning": "-"}, says: says{"data.k": "2"}},
		exchange{shows: "the default is to warn", do: "PUT " + configMaps + "/a", body: spare, code: 200,
			answer: says{"Warning": `299 - "duplicate field \"data.k\"" | 299 - "unknown field \"spare\""`}},
		exchange{do: "PUT " + configMaps + "/a?fieldValidation=Warn", header: asYAML, body: "metadata: {name: a}\nspare: 1", code: 200,
			answer: says{"Warning": `299 - "unknown field \"spare\""`}},
		exchange{do: "PUT " + configMaps + "/a?fieldValidation=Perhaps", body: spare, code: 422, says: says{"details.causes.0.field": "fieldValidation"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"spare":1}`, code: 200, answer: says{"Warning": `299 - "unknown field \"spare\""`}},
		exchange{do: "PATCH " + configMaps + "/a?fieldValidation=Strict", header: asMergePatch, body: `{"spare":1}`, code: 422, says: says{"details.causes.0.field": "patch"}},
		exchange{do: "PATCH " + configMaps + "/a?fieldValidation=Strict", header: asStrategicPatch, body: `{"spare":1}`, code: 422},
		exchange{do: "PATCH " + configMaps + "/a?fieldValidation=Strict", header: asJSONPatch, body: `[{"op":"add","path":"/data","value":{},"spare":1}]`, code: 422},
		exchange{do: "PATCH " + configMaps + "/a?fieldManager=m&fieldValidation=Strict", header: asApply, code: 400,
			body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: '1', k: '2'}"},
		exchange{shows: "names of fields are case-sensitive", do: "POST " + configMaps, body: `{"metadata":{"name":"b"},"DATA":{"k":"v"}}`, code: 201,
			answer: says{"Warning": `299 - "unknown field \"DATA\""`}, says: says{"data": "-"}},
	)
}

// "Dry-run": a request runs completely, and nothing is stored.
func TestDryRun(t *testing.T) {
	a := newAPI(t)
	a.run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`, code: 201, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"name":"b"},"data":{"k":"v"}}`, code: 201,
			says: says{"metadata.name": "b", "data.k": "v", "metadata.resourceVersion": "-"}, keep: says{"uid": "metadata.uid"}},
		exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"generateName":"b-"}}`, code: 201, keep: says{"name": "metadata.name"}},
		exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"name":"a"}}`, code: 409, says: says{"reason": "AlreadyExists"}},
		exchange{do: "POST " + configMaps + "?dryRun=All", body: `{"metadata":{"name":"B"}}`, code: 422, says: says{"reason": "Invalid"}},
		exchange{do: "PUT " + configMaps + "/a?dryRun=All", body: `{"metadata":{"name":"a"},"data":{"k":"w"}}`, code: 200, says: says{"data.k": "w", "metadata.resourceVersion": "{rv}"}},
		exchange{do: "PATCH " + configMaps + "/a?dryRun=All", header: asMergePatch, body: `{"data":{"k":"w"}}`, code: 200, says: says{"data.k": "w"}},
		exchange{do: "PATCH " + configMaps + "/c?dryRun=All&fieldManager=m", header: asApply, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}", code: 201},
		exchange{do: "DELETE " + configMaps + "/a?dryRun=All", code: 200, says: says{"status": "Success"}},
		exchange{do: "DELETE " + configMaps + "/a?dryRun=All&propagationPolicy=Foreground", code: 200, says: says{"metadata.finalizers": `["foregroundDeletion"]`}},
		exchange{shows: "nothing of this is there, and no revision was used", do: "GET " + configMaps, code: 200,
			says: says{"items.#.metadata.name": `["a"]`, "items.0.data.k": "v", "items.0.metadata.resourceVersion": "{rv}", "metadata.resourceVersion": "{rv}"}},
		exchange{do: "POST " + configMaps + "?dryRun=Some", body: `{"metadata":{"name":"b"}}`, code: 422,
			says: says{"details.causes.0.message": `Unsupported value: ["Some"]: supported values: "All"`}},
		exchange{do: "POST " + configMaps + "?dryRun=", body: `{"metadata":{"name":"b"}}`, code: 422,
			says: says{"message": `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All"`}},
		exchange{do: "DELETE " + configMaps + "/a?dryRun=", code: 422, says: says{"details.kind": "DeleteOptions"}},
		exchange{shows: "one with and one without a value", do: "DELETE " + configMaps + "/a?dryRun&dryRun=", code: 422, says: says{"details.kind": "DeleteOptions"}},
		exchange{shows: "without a value there are side effects", do: "POST " + configMaps + "?dryRun&pretty=true", body: `{"metadata":{"name":"b"}}`, code: 201},
		exchange{do: "GET " + configMaps + "/b", code: 200},
	)
}
