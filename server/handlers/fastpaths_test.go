package handlers_test

import (
	"net/http/httptest"
	"reflect"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// changing matches the parts of a response that depend on time or chance.
var changing = regexp.MustCompile(`"(time|creationTimestamp|lastTransitionTime)":"[^"]*"|"uid":"[^"]*"|after [0-9.]+s`)

// alike sends a request with all fast paths and with none, and compares the responses: the code, the headers and every byte. The request must not
// change anything.
func (a *api) alike(t *testing.T, method, target string, header says, body string) {
	t.Helper()
	ask := func(on bool) *httptest.ResponseRecorder {
		defer fastpath.TurnAll(on)()
		return a.answer(t, method, target, header, body)
	}
	fast, plain := ask(true), ask(false)
	if fast == nil || plain == nil {
		return
	}
	show := func(w *httptest.ResponseRecorder) []any {
		text := changing.ReplaceAllString(w.Body.String(), "-")
		return []any{w.Code, text, w.Header().Values("Warning"), w.Header().Get("Content-Type")}
	}
	// Of several unknown fields upstream names a random one: repeated often enough, it names that of the fast path. One of two neighbours in a
	// small map comes first once in eight times, so that 30 attempts were too few for some of a fuzz test's many inputs.
	for range 300 {
		if reflect.DeepEqual(show(plain), show(fast)) {
			return
		}
		plain = ask(false)
	}
	if diff := cmp.Diff(show(plain), show(fast)); diff != "" {
		t.Errorf("%s %s %q (-plain +fast):\n%s", method, target, body, diff)
	}
}

// FuzzFastPathsOfPatches checks that a patch has the same result, or error, with and without fast paths.
func FuzzFastPathsOfPatches(f *testing.F) {
	a := fuzzAPI(f)
	types := []says{asMergePatch, asStrategicPatch, asJSONPatch, asApply}
	for i, seeds := range [][]string{{
		`{"data":{"k":null,"n":"<&>"}}`, `{"metadata":{"labels":{"x":null,"y":"é"}}}`, `{"spec":{"replicas":"3"}}`, `{"nosuch":1}`, `{"data":{"a":"b","a":"c"}}`,
		`{"kind":"Other"}`, `{"metadata":{"name":"other"}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","nosuch":1}]}}}}`,
		`{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"x"}}}`, `{"metadata":{"managedFields":[{}]}}`, `{"metadata":{"creationTimestamp":"now"}}`, `null`, `[]`, `{`,
	}, {
		`{"data":{"k":null}}`, `{"spec":{"template":{"spec":{"containers":[{"$patch":"delete","name":"c"}]}}}}`,
		`{"data":{"k":null,"n":"<&>"}}`, `{"metadata":{"labels":{"x":null,"y":"é"},"finalizers":["example.com/f"]}}`, `{"spec":{"replicas":"3"}}`, `{"spec":{"replicas":3.0}}`, `{"nosuch":1}`,
		`{"data":{"a":"b","a":"c"}}`, `{"kind":"Other"}`, `{"metadata":{"name":"other"}}`, `{"metadata":{"managedFields":[{}]}}`, `{"metadata":{"creationTimestamp":"now"}}`, `null`, `[]`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"j","nosuch":1}]}}}}`, `{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"d"},{"name":"c"}],"containers":[{"name":"d","image":"j","env":[{"name":"e","value":"<"}]}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"j","resources":{"limits":{"cpu":0.5}}}]},"metadata":{"creationTimestamp":null,"annotations":{"a":"\u2028"}}},"strategy":{"rollingUpdate":{"maxSurge":1}}}}`,
		`{"metadata":{"annotations":{"deprecated.deployment.rollback.to":"x"}}}`, `{"data":{"a":"\ud800"},"binaryData":{"b":"AA=="}}`, `{"immutable":null,"data":{}}`,
	}, {
		`[{"op":"add","path":"/data/n","value":"v"}]`, `[{"op":"test","path":"/data/k","value":"w"}]`, `[{"op":"remove","path":"/nosuch"}]`,
		`[{"op":"replace","path":"/spec/replicas","value":7}]`, `[{"op":"add","path":"/spec/nosuch","value":1}]`, `[{"op":"copy","from":"/metadata/name","path":"/data/x"}]`,
		`[{"op":"add","path":"/metadata/annotations","value":{"deprecated.deployment.rollback.to":"x"}}]`, `[{"op":"move","from":"/data","path":"/binaryData"}]`, `[{"op":"add","path":"/data/n","value":"v","nosuch":1}]`, `{}`,
	}, {
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"n":"v"}}`, `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":2}}`,
		"apiVersion: v1\nkind: ConfigMap\ndata: {n: yes}", `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"b","a":"c"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"name":"c"},{"name":"c"}]}}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"n":"\/"},"nosuch":1}`,
	}} {
		for _, seed := range seeds {
			for validation := range uint8(3) {
				f.Add(uint8(i), validation, seed)
			}
		}
	}
	f.Fuzz(func(t *testing.T, typ, validation uint8, patch string) {
		query := "?dryRun=All&fieldManager=m&fieldValidation=" + []string{"Strict", "Warn", "Ignore"}[validation%3]
		if validation&4 != 0 && typ%4 == 3 {
			query += "&force=true"
		}
		for _, path := range []string{configMaps + "/a", configMaps + "/new", "/apis/apps/v1/namespaces/test/deployments/d", "/apis/apps/v1/namespaces/test/deployments/d/scale"} {
			a.alike(t, "PATCH", path+query, types[int(typ)%len(types)], patch)
		}
	})
}

// FuzzFastPathsOfBodies does the same for creates and updates.
func FuzzFastPathsOfBodies(f *testing.F) {
	a := fuzzAPI(f)
	for i, seed := range []string{`{"metadata":{"name":"b"}}`, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"k":"<"},"binaryData":{"b":"AA=="}}`, deployment,
		`{"kind":"Deployment"}`, `{"metadata":{"name":"d","annotations":{"deprecated.deployment.rollback.to":"x"}}}`, `{"apiVersion":"v1"}`, `{"apiVersion":"/v1","kind":"ConfigMap"}`, `{"metadata":{"name":"b"},"nosuch":1,"data":{"a":"1","a":"2"}}`,
		`{"metadata":{"name":"b","labels":{"a":7}}}`, `{"spec":{"replicas":1.5}}`, `{"spec":{"replicas":1e2}}`, `{"metadata":{"name":"\ud800","generateName":"\u00e9"}}`, `{"Metadata":{}}`,
		`{"metadata":{"name":"b","annotations":{"a":"` + "\xff" + `"}}}`, ` {"metadata" : null} `, `{"metadata":{"name":"b"}} {}`, `null`, `[]`, `7`, `{"kind":"List"}`, `{`, `{"data":{"a":nul}}`} {
		f.Add(uint8(i), seed)
	}
	f.Fuzz(func(t *testing.T, validation uint8, body string) {
		query := "?dryRun=All&fieldManager=m&fieldValidation=" + []string{"Strict", "Warn", "Ignore"}[validation%3]
		header := says{"Content-Type": "application/json"}
		for _, collection := range []string{configMaps, "/apis/apps/v1/namespaces/test/deployments"} {
			a.alike(t, "POST", collection+query, header, body)
		}
		a.alike(t, "PUT", configMaps+"/a"+query, header, body)
		a.alike(t, "PUT", "/apis/apps/v1/namespaces/test/deployments/d"+query, header, body)
		a.alike(t, "PUT", "/apis/apps/v1/namespaces/test/deployments/d/scale"+query, header, body)
	})
}

// An object that cannot be converted is rejected as in kube-apiserver: the body is at fault, not the server.
func TestConversionThatFails(t *testing.T) {
	a := newAPI(t)
	const deployments = "/apis/apps/v1/namespaces/test/deployments"
	const wrong = `{"metadata":{"name":"d","annotations":{"deprecated.deployment.rollback.to":"x"}}}`
	a.run(exchange{do: "POST " + deployments, body: wrong, code: 400, says: says{"reason": "BadRequest",
		"message": `Deployment in version "v1" cannot be handled as a Deployment: failed to parse annotation[deprecated.deployment.rollback.to]=x as int64: ` +
			`strconv.ParseInt: parsing "x": invalid syntax`}},
		exchange{do: "POST " + deployments, body: deployment, code: 201},
		exchange{do: "PATCH " + deployments + "/d", header: asMergePatch, body: wrong, code: 422, says: says{"reason": "Invalid"}})
}
