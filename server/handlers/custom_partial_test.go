package handlers_test

import "testing"

// A request for one object as a PartialObjectMetadataList is rejected. For a custom resource kube-apiserver fails late, with another error.
func TestOneObjectAsList(t *testing.T) {
	asList := func(media string, more says) says {
		header := says{"Accept": media + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
		for name, value := range more {
			header[name] = value
		}
		return header
	}
	const json, yaml = "application/json", "application/yaml"
	a := newAPI(t)
	failed := says{"kind": "Status", "reason": "-", "message": "content is not a list", "details": "-"}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, header: asList(json, nil), body: widget("a", `{"size":1,"replicas":1}`), code: 500, says: failed},
		exchange{shows: "it was created, though", do: "GET " + widgets + "/a", header: asList(json, nil), code: 500, says: failed},
		exchange{do: "GET " + widgets + "/a", header: asList(yaml, nil), code: 500},
		exchange{do: "GET " + widgets + "/a/status", header: asList(json, nil), code: 500, says: failed},
		exchange{do: "PATCH " + widgets + "/a", header: asList(json, asMergePatch), body: `{"spec":{"size":2}}`, code: 500, says: failed},
		exchange{do: "GET " + widgets + "/b", header: asList(json, nil), code: 404},
		exchange{do: "GET " + widgets, header: asList(json, nil), code: 200, says: says{"kind": "PartialObjectMetadataList", "items.#.metadata.name": `["a"]`}},
		exchange{do: "DELETE " + widgets + "/a", header: asList(json, nil), code: 200, says: says{"kind": "Status", "status": "Success"}},
		exchange{do: "POST " + configMaps, header: asList(json, nil), body: `{"metadata":{"name":"a"}}`, code: 406, says: says{"reason": "NotAcceptable",
			"message": "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"}})
	a.run(exchange{do: "POST " + widgets, body: widget("s", `{"size":1,"replicas":1}`), code: 201})
	a.run(exchange{do: "GET " + widgets + "/s/scale", header: asList(json, nil), code: 406, says: says{"reason": "NotAcceptable",
		"message": "you requested PartialObjectMetadataList, but the requested object is not a list (*v1.Scale)"}})
}
