package handlers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
}
