package handlers_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// CBOR is one of the "Alternate representations of resources" if the feature is on (KEP-4222).

func newCBOR(t *testing.T) *api { return newAPIWith(t, map[string]bool{"CBORServingAndStorage": true}) }

type fields = map[string]any

func encoded(t *testing.T, v any) string {
	t.Helper()
	data, err := direct.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// cborAnswer sends a request whose response must be CBOR.
func (a *api) cborAnswer(e exchange, contentType string) fields {
	a.Helper()
	w := a.send(e)
	if got := w.Header().Get("Content-Type"); w.Code != e.code || got != contentType {
		a.Fatalf("%s: %d, %s, %q", e.do, w.Code, got, w.Body)
	}
	var v fields
	if !bytes.HasPrefix(w.Body.Bytes(), []byte{0xd9, 0xd9, 0xf7}) {
		a.Errorf("%s: the answer does not describe itself: %.8x", e.do, w.Body)
	}
	if err := direct.Unmarshal(w.Body.Bytes(), &v); err != nil {
		a.Fatalf("%s: %v", e.do, err)
	}
	return v
}

func inCBOR(e exchange) exchange {
	h := says{"Accept": "application/cbor"}
	for name, value := range e.header {
		h[name] = value
	}
	e.header = h
	return e
}

var (
	sendsCBOR  = says{"Content-Type": "application/cbor"}
	cborApply  = says{"Content-Type": "application/apply-patch+cbor"}
	cborObject = "application/cbor"
)

// Every verb accepts and returns CBOR; managed fields are ordinary maps in it.
func TestCBORVerbs(t *testing.T) {
	a := newCBOR(t)
	made := a.cborAnswer(inCBOR(exchange{do: "POST " + configMaps, header: sendsCBOR, code: 201,
		body: encoded(t, fields{"metadata": fields{"name": "a"}, "binaryData": fields{"b": []byte{0, 255}}})}), cborObject)
	managed := made["metadata"].(fields)["managedFields"].([]any)[0].(fields)["fieldsV1"]
	if diff := cmp.Diff(fields{"f:binaryData": fields{".": fields{}, "f:b": fields{}}}, managed); diff != "" || made["kind"] != "ConfigMap" {
		t.Errorf("a %v whose managed fields are (-want +got):\n%s", made["kind"], diff)
	}
	got := a.cborAnswer(inCBOR(exchange{do: "GET " + configMaps + "/a", code: 200}), cborObject)
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("get differs from create (-create +get):\n%s", diff)
	}
	got["data"] = fields{"k": "v"}
	a.run(
		exchange{do: "PUT " + configMaps + "/a", header: sendsCBOR, body: encoded(t, got), code: 200, says: says{"data.k": "v", "binaryData.b": "AP8="}},
		exchange{do: "PATCH " + configMaps + "/b?fieldManager=m", header: cborApply, code: 201, says: says{"data.k": "v"},
			body: encoded(t, fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"name": "b"}, "data": fields{"k": "v"}})},
		exchange{do: "DELETE " + configMaps + "/b", header: sendsCBOR, body: encoded(t, fields{"dryRun": []string{"All"}}), code: 200},
		exchange{do: "GET " + configMaps + "/b", code: 200},
	)
	if s := a.cborAnswer(inCBOR(exchange{do: "GET " + configMaps + "/none", code: 404}), cborObject); s["reason"] != "NotFound" {
		t.Errorf("the error is %v", s)
	}
	page := a.cborAnswer(inCBOR(exchange{do: "GET " + configMaps + "?limit=1", code: 200}), cborObject)
	if items := page["items"].([]any); len(items) != 1 || page["metadata"].(fields)["continue"] == nil || items[0].(fields)["kind"] != nil {
		t.Errorf("the first page is %v", page)
	}
	empty := a.cborAnswer(inCBOR(exchange{do: "GET " + configMaps + "?labelSelector=x", code: 200}), cborObject)
	if items, ok := empty["items"].([]any); !ok || len(items) != 0 {
		t.Errorf("no items are %v", empty["items"])
	}
}

// Every verb of custom resources and their scale accepts CBOR, too.
func TestCBOROfCustomResources(t *testing.T) {
	a := newCBOR(t)
	object := func(name string, spec fields) fields {
		return fields{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": fields{"name": name}, "spec": spec}
	}
	a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201})
	made := a.cborAnswer(inCBOR(exchange{do: "POST " + widgets, header: sendsCBOR, code: 201, body: encoded(t, object("a", fields{"size": 3, "junk": 1}))}), cborObject)
	if diff := cmp.Diff(fields{"size": int64(3), "color": "red"}, made["spec"]); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	made["spec"].(fields)["replicas"] = 2
	scale := fields{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": fields{"name": "a"}, "spec": fields{"replicas": 5}}
	a.run(
		exchange{do: "PUT " + widgets + "/a", header: sendsCBOR, body: encoded(t, made), code: 200, says: says{"spec.replicas": "2"}},
		exchange{do: "PUT " + widgets + "/a/scale", header: sendsCBOR, body: encoded(t, scale), code: 200, says: says{"spec.replicas": "5"}},
		exchange{do: "PATCH " + widgets + "/a?fieldManager=m", header: cborApply, body: encoded(t, object("a", fields{"tags": []string{"x"}})), code: 200,
			says: says{"spec": `{"color":"red","replicas":5,"size":3,"tags":["x"]}`}},
		exchange{do: "POST " + widgets, header: sendsCBOR, body: encoded(t, object("b", fields{"size": 11})), code: 422},
		exchange{do: "POST " + widgets, header: sendsCBOR, body: "\xff", code: 400},
	)
	page := a.cborAnswer(inCBOR(exchange{do: "GET " + widgets, code: 200}), cborObject)
	if items := page["items"].([]any); len(items) != 1 || items[0].(fields)["kind"] != "Widget" || page["kind"] != "WidgetList" {
		t.Errorf("the list is %v", page)
	}
	partial := inCBOR(exchange{do: "GET " + widgets + "/a", code: 200})
	partial.header["Accept"] += ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	if p := a.cborAnswer(partial, cborObject); p["kind"] != "PartialObjectMetadata" || p["spec"] != nil {
		t.Errorf("metadata alone is %v", p)
	}
	off := newAPI(t)
	off.run(
		exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
		exchange{do: "POST " + widgets, header: sendsCBOR, body: encoded(t, object("a", fields{"size": 3})), code: 415},
		exchange{do: "POST " + widgets, header: says{"Content-Type": "application/vnd.kubernetes.protobuf"}, body: "k8s\x00", code: 415,
			says: says{"message": "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"}},
	)
}

// Errors of a body are kube-apiserver's ("Field validation"): only the first of several unknown fields is reported.
func TestCBORRefusals(t *testing.T) {
	a := newCBOR(t)
	unknown := encoded(t, fields{"metadata": fields{"name": "a"}, "bogus": 1, "more": 2})
	const offered = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"
	a.run(
		exchange{do: "POST " + configMaps + "?dryRun=All", header: sendsCBOR, body: unknown, code: 201,
			answer: says{"Warning": `299 - "cbor: found unknown field at map element index 0"`}},
		exchange{do: "POST " + configMaps + "?dryRun=All&fieldValidation=Ignore", header: sendsCBOR, body: unknown, code: 201, answer: says{"Warning": "-"}},
		exchange{do: "POST " + configMaps + "?fieldValidation=Strict", header: sendsCBOR, body: unknown, code: 400,
			says: says{"message": `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: cbor: found unknown field at map element index 0`}},
		exchange{do: "POST " + configMaps, header: sendsCBOR, body: "\xa2Aa\x01Aa\x02", code: 400,
			says: says{"message": `the object provided is unrecognized (must be of type ConfigMap): unable to determine group/version/kind: cbor: found duplicate map key "a" at map element index 1 (a2416101416102)`}},
		exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: cborApply, body: "\xa2Aa\x01Aa\x02", code: 400,
			says: says{"message": `error decoding patch: cbor: found duplicate map key "a" at map element index 1`}},
		exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: cborApply, code: 400, says: says{"message": "error decoding patch: EOF"}},
		exchange{do: "PATCH " + configMaps + "/a", header: cborApply, code: 422, says: says{"details.causes.0.field": "fieldManager"}},
		exchange{do: "GET " + configMaps, header: says{"Accept": "application/cbor;as=Table;g=meta.k8s.io;v=v1"}, code: 406,
			says: says{"message": "only the following media types are accepted: " + offered}},
		exchange{do: "GET " + configMaps, header: says{"Accept": "application/cbor-seq"}, code: 406,
			says: says{"message": "only the following media types are accepted: " + offered}},
		exchange{do: "GET " + configMaps, header: says{"Accept": "text/html"}, code: 406,
			says: says{"message": "406: Not Acceptable\n\nAvailable representations: " + offered +
				", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch, application/cbor-seq"}},
		exchange{do: "GET " + configMaps + "?watch=1", header: asYAMLAnswer, code: 406},
		exchange{do: "POST " + configMaps, header: says{"Content-Type": "text/plain"}, body: "{}", code: 415,
			says: says{"message": "the body of the request was in an unknown format - accepted media types include: " + offered}},
	)
}

var asYAMLAnswer = says{"Accept": "application/yaml"}

// Without the feature CBOR is not supported.
func TestCBOROff(t *testing.T) {
	a := newAPI(t)
	a.run(
		exchange{do: "GET " + configMaps, header: says{"Accept": "application/cbor"}, code: 406},
		exchange{do: "POST " + configMaps, header: sendsCBOR, body: encoded(t, fields{"metadata": fields{"name": "a"}}), code: 415},
		exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: cborApply, code: 415, says: says{"message": "415: Unsupported Media Type"}},
		exchange{do: "GET /api", header: says{"Accept": "application/cbor"}, code: 406},
	)
}

// A watch in CBOR is a sequence of documents (RFC 8742), each containing the object's own document.
func TestCBORWatch(t *testing.T) {
	a := newCBOR(t)
	s := a.listen()
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201})
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+configMaps+
		"?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/cbor")
	response, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); got != "application/cbor-seq" {
		t.Errorf("the type is %s", got)
	}
	frames := cbor.NewDecoder(response.Body)
	for _, want := range []string{"ADDED", "BOOKMARK"} {
		var raw cbor.RawMessage
		if err := frames.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		var event fields
		if err := direct.Unmarshal(raw, &event); err != nil || event["type"] != want || event["object"].(fields)["kind"] != "ConfigMap" {
			t.Errorf("the event is %v, %v", event, err)
		}
	}
}
