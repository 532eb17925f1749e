package handlers_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

const configMaps = "/api/v1/namespaces/test/configmaps"

// "Updates to existing resources".

func TestPut(t *testing.T) {
	newAPI(t).run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`, code: 201,
			keep: says{"rv": "metadata.resourceVersion", "uid": "metadata.uid"}},
		exchange{do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"a","resourceVersion":"{rv}"},"data":{"k":"w"}}`, code: 200,
			says: says{"data.k": "w", "metadata.uid": "{uid}"}},
		exchange{shows: "optimistic concurrency", do: "PUT " + configMaps + "/a", code: 409,
			body: `{"metadata":{"name":"a","resourceVersion":"{rv}"},"data":{"k":"x"}}`,
			says: says{"reason": "Conflict", "details.name": "a", "details.kind": "configmaps",
				"message": `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`}},
		exchange{shows: "no resourceVersion: whatever there is", do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"a"},"data":{"k":"y"}}`,
			code: 200, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{shows: "nothing changes: no new revision", do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"a"},"data":{"k":"y"}}`,
			code: 200, says: says{"metadata.resourceVersion": "{rv}"}},
		exchange{do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"a","uid":"other"}}`, code: 409,
			says: says{"reason": "Conflict", "message": `Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, ` +
				`Key: /registry/configmaps/test/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}`}},
		exchange{do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"b"}}`, code: 400,
			says: says{"message": "the name of the object (b) does not match the name on the URL (a)"}},
		exchange{do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"a","namespace":"other"}}`, code: 400,
			says: says{"message": "the namespace of the provided object does not match the namespace sent on the request"}},
		exchange{do: "PUT " + configMaps + "/none", body: `{"metadata":{"name":"none"}}`, code: 404,
			says: says{"message": `configmaps "none" not found`}},
		exchange{shows: "a type that is made by PUT", do: "PUT /apis/coordination.k8s.io/v1/namespaces/test/leases/l", body: `{"metadata":{"name":"l"}}`,
			code: 201, says: says{"metadata.name": "l"}},
	)
}

func TestPatch(t *testing.T) {
	a := newAPI(t)
	a.run(
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"k":"v","l":"m"}}`, code: 201, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"k":null,"n":"o"}}`, code: 200,
			says: says{"data": `{"l":"m","n":"o"}`}},
		exchange{do: "PATCH " + configMaps + "/a", header: asJSONPatch, body: `[{"op":"test","path":"/data/l","value":"m"},{"op":"remove","path":"/data/l"}]`,
			code: 200, says: says{"data": `{"n":"o"}`}},
		exchange{do: "PATCH " + configMaps + "/a", header: asJSONPatch, body: `[{"op":"test","path":"/data/n","value":"x"}]`, code: 422,
			says: says{"reason": "Invalid", "message": "the server rejected our request due to an error in our request"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asStrategicPatch, body: `{"data":{"$patch":"replace","p":"q"}}`, code: 200,
			says: says{"data": `{"p":"q"}`}},
		exchange{shows: "a directive over which upstream's merge panics", do: "PATCH " + configMaps + "/a", header: asStrategicPatch,
			body: `{"$retainKeys":[{"name":"main"}]}`, code: 400, says: says{"reason": "BadRequest"}},
		exchange{shows: "with a condition", do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"metadata":{"resourceVersion":"{rv}"}}`, code: 409,
			says: says{"reason": "Conflict"}},
		exchange{do: "PATCH " + configMaps + "/a", header: says{"Content-Type": "application/json"}, body: `{}`, code: 415,
			says: says{"reason": "UnsupportedMediaType"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{`, code: 400, says: says{"reason": "BadRequest"}},
		exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"apiVersion":null}`, code: 400},
		exchange{do: "PATCH " + configMaps + "/none", header: asMergePatch, body: `{}`, code: 404, says: says{"reason": "NotFound"}},
		exchange{shows: "at most 10,000 operations", do: "PATCH " + configMaps + "/a", header: asJSONPatch, code: 413,
			body: "[" + strings.Repeat(`{"op":"test","path":"/data/p","value":"q"},`, 10000) + `{"op":"test","path":"/data/p","value":"q"}]`},
	)
}

// Requests without a precondition never conflict: they are computed again when another write comes in between.
func TestInterruptedUpdates(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`, code: 201})
	meanwhile := func(e exchange) { a.store.interrupt(func() { a.run(e) }) }
	other := exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"other":"x"}}`, code: 200, keep: says{"rv": "metadata.resourceVersion"}}
	gone := exchange{do: "DELETE " + configMaps + "/a", code: 200}

	meanwhile(other)
	a.run(exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"k":"w"}}`, code: 200,
		says: says{"data": `{"k":"w","other":"x"}`}})
	meanwhile(other)
	a.run(exchange{shows: "a PUT replaces what it did not see, and says what it says each time anew", do: "PUT " + configMaps + "/a",
		body: `{"metadata":{"name":"a","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"o","uid":"u"},` +
			`{"apiVersion":"v1","kind":"Pod","name":"o","uid":"u"}]},"data":{"z":"1"},"spare":1}`,
		code: 200, says: says{"data": `{"z":"1"}`, "metadata.ownerReferences.#": "1"},
		answer: says{"Warning": `299 - "unknown field \"spare\"" | 299 - ".metadata.ownerReferences contains duplicate entries; API server dedups ` +
			`owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u"`}})
	meanwhile(other)
	a.run(exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: asApply, body: "apiVersion: v1\nkind: ConfigMap\ndata: {q: r}\nmetadata: {name: a}", code: 200,
		says: says{"data": `{"other":"x","q":"r","z":"1"}`}, keep: says{"rv": "metadata.resourceVersion"}})
	meanwhile(other)
	a.run(exchange{shows: "a dry run commits nothing", do: "PATCH " + configMaps + "/a?dryRun=All", header: asMergePatch, body: `{"data":{"q":"s"}}`, code: 200,
		says: says{"metadata.resourceVersion": "{rv}", "data.q": "s"}})
	a.store.interrupt(nil)
	meanwhile(exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"other":"y"}}`, code: 200})
	a.run(exchange{do: "GET " + configMaps + "/a", code: 200, keep: says{"rv": "metadata.resourceVersion"}},
		exchange{shows: "a condition that no longer holds", do: "PUT " + configMaps + "/a", body: `{"metadata":{"name":"a","resourceVersion":"{rv}"},"data":{"n":"1"}}`, code: 409})
	meanwhile(gone)
	a.run(exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: `{"data":{"k":"w"}}`, code: 404})
}

func TestInterruptedCreates(t *testing.T) {
	a := newAPI(t)
	l := "/apis/coordination.k8s.io/v1/namespaces/test/leases"
	apply := exchange{do: "PATCH " + configMaps + "/a?fieldManager=m", header: asApply, body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}", code: 200,
		says: says{"data": `{"k":"v","x":"y"}`}}
	a.store.interrupt(func() {
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"data":{"x":"y"}}`, code: 201})
	})
	a.run(apply)
	a.store.interrupt(func() { a.run(exchange{do: "DELETE " + configMaps + "/a", code: 200}) })
	apply.body, apply.code, apply.says = strings.Replace(apply.body, "{k: v}", "{k: w}", 1), 201, says{"data": `{"k":"w"}`}
	a.run(apply)
	a.store.interrupt(func() { a.run(exchange{do: "POST " + l, body: `{"metadata":{"name":"l"}}`, code: 201}) })
	a.run(exchange{shows: "a PUT that found the object after all", do: "PUT " + l + "/l", body: `{"metadata":{"name":"l"},"spec":{"holderIdentity":"h"}}`,
		code: 422, says: says{"details.causes.0.message": "Invalid value: 0: must be specified for an update"}})
}

func TestConcurrentPatches(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"}}`, code: 201})
	const writers = 32
	var wg sync.WaitGroup
	codes := make([]int, writers)
	e := exchange{do: "GET " + configMaps + "/a", code: 200, says: says{}}
	for i := range writers {
		e.says[fmt.Sprintf("data.k%d", i)] = "v"
		wg.Go(func() {
			codes[i] = a.send(exchange{do: "PATCH " + configMaps + "/a", header: asMergePatch, body: fmt.Sprintf(`{"data":{"k%d":"v"}}`, i)}).Code
		})
	}
	wg.Wait()
	for i, code := range codes {
		if code != 200 {
			t.Errorf("writer %d: code %d", i, code)
		}
	}
	a.run(e)
}

// Null for bytes is stored as empty bytes, by every kind of write: kube-apiserver has no null there.
func TestNullBytesAreEmpty(t *testing.T) {
	const s = "/api/v1/namespaces/test/secrets"
	newAPI(t).run(
		exchange{do: "POST " + s + "?dryRun=All", body: `{"metadata":{"name":"a"},"data":{"x":null}}`, code: 201, says: says{"data": `{"x":""}`}},
		exchange{do: "POST " + s, body: `{"metadata":{"name":"a"},"data":{"x":null,"y":"eQ=="}}`, code: 201, says: says{"data": `{"x":"","y":"eQ=="}`}},
		exchange{do: "GET " + s + "/a", code: 200, says: says{"data": `{"x":"","y":"eQ=="}`}},
		exchange{do: "PATCH " + s + "/a", header: asJSONPatch, body: `[{"op":"add","path":"/data/z","value":null}]`, code: 200, says: says{"data.z": ""}},
		exchange{do: "PATCH " + s + "/a?fieldManager=m", header: asApply, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"w":null}}`, code: 200,
			says: says{"data": `{"w":"","x":"","y":"eQ==","z":""}`}},
		exchange{do: "PATCH " + s + "/b?fieldManager=m", header: asApply, body: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"b"},"data":{"w":null}}`, code: 201,
			says: says{"data": `{"w":""}`}},
		exchange{do: "PUT " + s + "/a", body: `{"metadata":{"name":"a"},"data":{"x":null}}`, code: 200, says: says{"data": `{"x":""}`}},
		exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"a"},"binaryData":{"x":null}}`, code: 201, says: says{"binaryData": `{"x":""}`}},
	)
}
