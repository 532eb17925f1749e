package handlers_test

import (
	"strings"
	"testing"
)

// offered are the media types in the message of a 406.
const offered = "application/json, application/yaml, application/vnd.kubernetes.protobuf"

// "Alternate representations of resources": the encodings of responses and requests.
func TestMediaTypes(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201})
	for accept, want := range map[string]string{
		"":                                    "application/json",
		"*/*":                                 "application/json",
		"application/yaml":                    "application/yaml",
		"application/vnd.kubernetes.protobuf": "application/vnd.kubernetes.protobuf",
		"text/html, application/yaml;q=0.5":   "application/yaml",
		"application/json;q=0.1, application/yaml;q=0.9": "application/yaml",
		"application/cbor, application/json":             "application/json",
	} {
		a.run(exchange{shows: accept, do: "GET " + configMaps + "/a", header: says{"Accept": accept}, code: 200, answer: says{"Content-Type": want}})
	}
	a.run(
		exchange{do: "GET " + configMaps + "/a", header: says{"Accept": "text/html"}, code: 406,
			says: says{"reason": "NotAcceptable", "message": "406: Not Acceptable\n\nAvailable representations: " + offered}},
		exchange{do: "GET " + configMaps + "/a", header: says{"Accept": "application/json;as=Nothing;g=meta.k8s.io;v=v1"}, code: 406,
			says: says{"message": "only the following media types are accepted: " + offered}},
		exchange{do: "POST " + configMaps, header: says{"Content-Type": "text/plain"}, body: `{}`, code: 415,
			says: says{"message": "the body of the request was in an unknown format - accepted media types include: " + offered}},
		exchange{do: "POST " + configMaps, header: says{"Content-Type": "application/json; charset=utf-8"}, body: `{"metadata":{"name":"b"}}`, code: 201},
		exchange{do: "POST " + configMaps, header: asYAML, body: "metadata: {name: c}\ndata: {k: v}", code: 201, says: says{"data.k": "v"}},
		exchange{do: "POST " + configMaps, header: says{"Content-Type": "application/vnd.kubernetes.protobuf"}, body: "k8s\x00\xff", code: 400},
	)
}

func TestPretty(t *testing.T) {
	a := newAPI(t)
	for agent, want := range map[string]bool{"test/1": false, "curl/8": true, "Wget/1": true, "Mozilla/5.0": true} {
		for query, want := range map[string]bool{"": want, "?pretty=true": true, "?pretty=false": false} {
			w := a.send(exchange{do: "GET /api/v1/namespaces/default" + query, header: says{"User-Agent": agent}})
			if got := strings.Contains(w.Body.String(), "\n  \"kind\""); got != want {
				t.Errorf("%s for %s: pretty is %v", query, agent, got)
			}
		}
	}
}

// "Collections": lists have a kind and a resourceVersion, their items neither kind nor apiVersion, and an empty list has items [].
func TestCollections(t *testing.T) {
	newAPI(t).run(
		exchange{do: "GET " + configMaps, code: 200, says: says{"kind": "ConfigMapList", "apiVersion": "v1", "items": "[]"}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a","labels":{"x":"y"}}}`, code: 201, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{do: "GET " + configMaps, code: 200,
			says: says{"metadata": `{"resourceVersion":"{rv}"}`, "items.0.metadata.name": "a", "items.0.kind": "-", "items.0.apiVersion": "-"}},
		exchange{do: "GET /api/v1/configmaps", code: 200, says: says{"items.#.metadata.namespace": `["kube-system","test"]`}},
		exchange{do: "GET /api/v1/namespaces/none/configmaps", code: 200, says: says{"items": "[]"}},
		exchange{do: "GET " + configMaps + "?labelSelector=x+in+(y,z)", code: 200, says: says{"items.#": "1"}},
		exchange{do: "GET " + configMaps + "?labelSelector=!x", code: 200, says: says{"items.#": "0"}},
		exchange{do: "GET " + configMaps + "?labelSelector=x==y==z", code: 400, says: says{"reason": "BadRequest"}},
		exchange{do: "GET " + configMaps + "?fieldSelector=metadata.name!%3Da", code: 200, says: says{"items.#": "0"}},
		exchange{do: "GET " + configMaps + "?fieldSelector=data.k%3Dv", code: 400, says: says{"message": `"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"`}},
		exchange{do: "GET /api/v1/configmaps?fieldSelector=metadata.namespace%3Dother", code: 200, says: says{"items.#": "0"}},
	)
}
