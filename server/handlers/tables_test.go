package handlers_test

import "testing"

var (
	asTable   = says{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
	asPartial = says{"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
)

// "Receiving resources as Tables".
func TestTables(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST /apis/apps/v1/namespaces/test/deployments", body: deployment, code: 201, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{do: "GET /apis/apps/v1/namespaces/test/deployments", header: asTable, code: 200, answer: says{"Content-Type": "application/json"},
			says: says{"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata.resourceVersion": "{rv}",
				"columnDefinitions.#.name":     `["Name","Ready","Up-to-date","Available","Age","Containers","Images","Selector"]`,
				"columnDefinitions.#.priority": `[0,0,0,0,0,1,1,1]`,
				"rows.0.cells.0":               "d", "rows.0.cells.1": "0/1", "rows.0.cells.6": "i",
				"rows.0.object.kind": "PartialObjectMetadata", "rows.0.object.metadata.name": "d", "rows.0.object.spec": "-"}},
		exchange{do: "GET /apis/apps/v1/namespaces/test/deployments/d?includeObject=Object", header: asTable, code: 200,
			says: says{"rows.0.object.kind": "Deployment", "rows.0.object.spec.replicas": "1"}},
		exchange{do: "GET /apis/apps/v1/namespaces/test/deployments?includeObject=None", code: 200,
			header: says{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1beta1"},
			says:   says{"apiVersion": "meta.k8s.io/v1beta1", "rows.0.object": ""}},
		exchange{do: "GET /apis/apps/v1/namespaces/test/deployments?includeObject=All", header: asTable, code: 400},
		exchange{shows: "before the encoding", do: "GET /apis/apps/v1/namespaces/test/deployments?watch=1&includeObject=All",
			header: says{"Accept": "application/yaml;as=Table;g=meta.k8s.io;v=v1"}, code: 400},
		exchange{shows: "nothing there", do: "GET " + configMaps, header: asTable, code: 200, says: says{"rows": "[]"}},
		exchange{shows: "a fallback", do: "GET " + configMaps, code: 200,
			header: says{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v9, application/json"}, says: says{"kind": "ConfigMapList"}},
		exchange{shows: "none", do: "GET " + configMaps, header: says{"Accept": "application/json;as=Table;g=meta.k8s.io;v=v9"}, code: 406,
			says: says{"reason": "NotAcceptable"}},
		exchange{do: "GET " + configMaps + "/none", header: asTable, code: 404, says: says{"kind": "Status"}},
	)
}

// Virtual types have no Tables, and neither have subresources whose kind is not derived from the object.
func TestNoTables(t *testing.T) {
	const review = `{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}`
	const reviews = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	none := says{"reason": "NotAcceptable", "message": "only the following media types are accepted: " + offered}
	newAPI(t).run(
		exchange{do: reviews, body: review, header: asTable, code: 406, says: none},
		exchange{do: "POST /api/v1/namespaces/test/bindings", body: "{}", header: asTable, code: 406, says: none},
		exchange{do: "POST /api/v1/namespaces/test/pods/p/eviction", body: "{}", header: asTable, code: 406, says: none},
		exchange{do: "PUT /api/v1/namespaces/test/finalize", body: "{}", header: asTable, code: 406, says: none},
		exchange{shows: "a fallback", do: reviews, body: review, code: 201, says: says{"kind": "SelfSubjectAccessReview", "spec.nonResourceAttributes.path": "/"},
			header: says{"Accept": asTable["Accept"] + ",application/json"}},
		exchange{shows: "its metadata", do: reviews, body: review, header: asPartial, code: 201,
			says: says{"kind": "PartialObjectMetadata", "metadata.managedFields.0.manager": "test", "spec": "-"}},
		exchange{shows: "nor has the status of some types", do: "GET /apis/apiregistration.k8s.io/v1/apiservices/v1./status", header: asTable, code: 406, says: none},
		exchange{do: "GET " + definitions + "/none/status", header: asTable, code: 406, says: none},
		exchange{shows: "a table of a status", do: "GET /api/v1/namespaces/test/status", header: asTable, code: 200,
			says: says{"kind": "Table", "rows.0.cells.0": "test"}},
	)
}

// Metadata only, as informers of metadata request it.
func TestPartialObjectMetadata(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}`, code: 201},
		exchange{do: "GET " + configMaps + "/a", header: asPartial, code: 200,
			says: says{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata.labels.x": "y", "data": "-"}},
		exchange{do: "GET " + configMaps, code: 200, header: says{"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"},
			says: says{"kind": "PartialObjectMetadataList", "items.#.metadata.name": `["a"]`, "items.0.data": "-"}},
		exchange{do: "GET " + configMaps, header: asPartial, code: 406},
		exchange{shows: "a Status stays one", do: "DELETE " + configMaps + "/a", header: asPartial, code: 200, says: says{"kind": "Status"}},
	)
}
