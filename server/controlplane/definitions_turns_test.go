package controlplane

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/server/servertest"
)

// A definition with many objects keeps no other one waiting: a turn deletes some of its objects, then finishes other definitions and
// settles names.
func TestDefinitionsWithManyObjectsTakeTurns(t *testing.T) {
	s, c := servertest.New(t, nil)
	p := New(Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Definitions: c.Definitions.(Definitions), Front: s})
	if err := p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	chore := p.keepDefinitions()
	send := func(method, path, body string, code int) gjson.Result {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "master")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != code {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return gjson.ParseBytes(w.Body.Bytes())
	}
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	define := func(plural, kind string) {
		send("POST", path, fmt.Sprintf(`{"metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":%[1]q,"kind":%q},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, plural, kind), 201)
	}
	define("anchors", "Anchor")
	define("bolts", "Bolt")
	define("clamps", "Bolt")
	for i := range instancesPerTurn + 1 {
		send("POST", "/apis/example.com/v1/anchors", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Anchor","metadata":{"name":"a%d"}}`, i), 201)
	}
	send("DELETE", path+"/anchors.example.com", "", 200)
	send("DELETE", path+"/bolts.example.com", "", 200)

	again, err := chore.do(t.Context(), nil)
	if err != nil || again <= 0 || again >= instancesLeft {
		t.Errorf("the next turn is in %v: %v", again, err)
	}
	if n := send("GET", "/apis/example.com/v1/anchors", "", 200).Get("items.#").Int(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
	if got := send("GET", path+"/anchors.example.com", "", 200).Get(`status.conditions.#(type=="Terminating").reason`).Str; got != "InstanceDeletionInProgress" {
		t.Errorf("the deletion is %s", got)
	}
	send("GET", path+"/bolts.example.com", "", 404)
	send("GET", "/apis/example.com/v1/clamps", "", 200)
	if again, err = chore.do(t.Context(), nil); err != nil || again != 0 {
		t.Errorf("the turn after that is in %v: %v", again, err)
	}
	send("GET", path+"/anchors.example.com", "", 404)
}
