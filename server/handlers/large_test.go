package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestLargeObjects checks that an object that is too large with its managedFields is stored without them, except for an apply, and that one that is
// too large without them is rejected.
func TestLargeObjects(t *testing.T) {
	a := newAPI(t)
	send := func(method, path, contentType, body string, code int) string {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != code {
			t.Fatalf("%s %s: %d %.300s", method, path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	var data strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&data, `,"%0220d":"v"`, i)
	}
	large := func(name string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{` + data.String()[1:] + `}}`
	}
	const asJSON, asPatch = "application/json", "application/merge-patch+json"
	small := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"v"}}`
	owned := func(answer string) bool { return gjson.Get(answer, "metadata.managedFields").Exists() }

	if answer := send("POST", configMaps, asJSON, large("a"), 201); owned(answer) || gjson.Get(answer, "data.@keys.#").Int() != 4000 {
		t.Errorf("created: %.200s", answer)
	}
	if !owned(send("POST", configMaps, asJSON, small, 201)) {
		t.Error("a small object has no managedFields")
	}
	if answer := send("PUT", configMaps+"/b", asJSON, large("b"), 200); owned(answer) || gjson.Get(answer, "data.@keys.#").Int() != 4000 {
		t.Errorf("updated: %.200s", answer)
	}
	send("DELETE", configMaps+"/b", asJSON, "", 200)
	send("POST", configMaps, asJSON, small, 201)
	if answer := send("PATCH", configMaps+"/b", asPatch, large("b"), 200); owned(answer) || gjson.Get(answer, "data.k").Str != "v" {
		t.Errorf("patched: %.200s", answer)
	}
	const refused = "etcdserver: request is too large"
	answer := send("PATCH", configMaps+"/c?fieldManager=me", "application/apply-patch+yaml", large("c"), 500)
	if got := gjson.Get(answer, "message").Str; got != refused {
		t.Errorf("applied: %s", got)
	}
	pod := `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"` + strings.Repeat("v", 1600000) + `"}]}]}}`
	answer = send(http.MethodPost, "/api/v1/namespaces/test/pods", asJSON, pod, 500)
	if got := gjson.Get(answer, "message").Str; got != refused {
		t.Errorf("a large pod: %s", got)
	}
	answer = send(http.MethodPost, "/api/v1/namespaces/test/pods", asJSON, strings.Replace(pod, "vvv", strings.Repeat("v", 600000), 1), 500)
	if got := gjson.Get(answer, "message").Str; !strings.HasPrefix(got, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (22") {
		t.Errorf("a larger pod: %s", got)
	}
}

// The limit is of what kube-apiserver would store, which is protobuf: escapes of JSON, up to six bytes each, do not count.
func TestLargeObjectInJSON(t *testing.T) {
	a := newAPI(t)
	for name, text := range map[string]string{"quotes": `\"`, "html": `<`, "newlines": `\n`} {
		value := strings.Repeat(text, 1000<<10)
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{"name":"` + name + `"},"data":{"k":"` + value + `"}}`, code: 201},
			exchange{do: "PATCH " + configMaps + "/" + name, header: asMergePatch, body: `{"data":{"l":"w"}}`, code: 200},
			exchange{do: "GET " + configMaps + "/" + name, code: 200, says: says{"data.l": "w"}})
	}
	pod := `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"E","value":"` + strings.Repeat("<", 1600000) + `"}]}]}}`
	definition := `{"metadata":{"name":"xs.example.com","annotations":{"a":"` + strings.Repeat("<", 250<<10) + `"}},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":"xs","kind":"X"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","description":"` +
		strings.Repeat("<", 50<<10) + `"}}}]}}` // kube-apiserver stores definitions as JSON
	for path, body := range map[string]string{"/api/v1/namespaces/test/pods": pod, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": definition} {
		a.run(exchange{do: "POST " + path, body: body, code: 500, says: says{"message": "etcdserver: request is too large"}})
	}
}

// An object that is too large with its managedFields is admitted once by mutating webhooks, as in kube-apiserver, and validated again without them.
func TestLargeObjectIsMutatedOnce(t *testing.T) {
	a, v := newAPI(t), newReviewer(t)
	rule := ruleFor("", "v1", "configmaps")
	v.patches("/mutate", `[{"op":"add","path":"/metadata/labels","value":{"mutated":"yes"}}]`)
	a.run(exchange{do: "POST " + mutatingConfigurations, body: webhooks("m", v.webhook("/mutate", rule, "")), code: 201},
		exchange{do: "POST " + validatingConfigurations, body: webhooks("v", v.webhook("/validate", rule, "")), code: 201})
	var data strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&data, `,"%0220d":"v"`, i)
	}
	for _, name := range []string{`"name":"large"`, `"generateName":"large-"`} {
		a.run(exchange{do: "POST " + configMaps, body: `{"metadata":{` + name + `},"data":{` + data.String()[1:] + `}}`, code: 201,
			says: says{"metadata.managedFields": "-", "metadata.labels.mutated": "yes", "data.@keys.#": "4000"}})
		var asked []string
		for _, review := range v.take() {
			asked = append(asked, review.path)
		}
		if want := []string{"/mutate", "/validate", "/validate"}; !slices.Equal(asked, want) {
			t.Errorf("%s: the webhooks were asked at %q, want %q", name, asked, want)
		}
	}
}
