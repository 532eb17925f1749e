package controlplane

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// turns is a server without a control plane, whose chore of definitions a test runs.
type turns struct {
	*testing.T
	s     *server.Server
	c     server.Config
	chore *chore
}

func newTurns(t *testing.T) turns {
	s, c := servertest.New(t, nil)
	p := New(Config{Registry: c.Registry, Store: c.Store, Pipeline: c.Pipeline, Logger: c.Logger, Definitions: c.Definitions.(Definitions), Front: s})
	if err := p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return turns{t, s, c, p.keepDefinitions()}
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func (x turns) send(method, path, body string, code int) gjson.Result {
	x.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "master")
	r.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	x.s.Handler().ServeHTTP(w, r)
	if w.Code != code {
		x.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return gjson.ParseBytes(w.Body.Bytes())
}

func (x turns) define(plural, kind string) {
	x.Helper()
	x.send("POST", definitionsPath, fmt.Sprintf(`{"metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"plural":%[1]q,"kind":%q},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, plural, kind), 201)
}

// anchors creates many objects.
func (x turns) anchors(n int) {
	x.Helper()
	for i := range n {
		x.send("POST", "/apis/example.com/v1/anchors", fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Anchor","metadata":{"name":"a%d"}}`, i), 201)
	}
}

// A definition with many objects keeps no other one waiting: a turn deletes some of its objects, then finishes other definitions and
// settles names.
func TestDefinitionsWithManyObjectsTakeTurns(t *testing.T) {
	x := newTurns(t)
	x.define("anchors", "Anchor")
	x.define("bolts", "Bolt")
	x.define("clamps", "Bolt")
	x.anchors(instancesPerTurn + 1)
	x.send("DELETE", definitionsPath+"/anchors.example.com", "", 200)
	x.send("DELETE", definitionsPath+"/bolts.example.com", "", 200)

	again, err := x.chore.do(t.Context(), nil)
	if err != nil || again <= 0 || again >= instancesLeft {
		t.Errorf("the next turn is in %v: %v", again, err)
	}
	if n := x.send("GET", "/apis/example.com/v1/anchors", "", 200).Get("items.#").Int(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
	if got := x.send("GET", definitionsPath+"/anchors.example.com", "", 200).Get(`status.conditions.#(type=="Terminating").reason`).Str; got != "InstanceDeletionInProgress" {
		t.Errorf("the deletion is %s", got)
	}
	x.send("GET", definitionsPath+"/bolts.example.com", "", 404)
	x.send("GET", "/apis/example.com/v1/clamps", "", 200)
	if again, err = x.chore.do(t.Context(), nil); err != nil || again != 0 {
		t.Errorf("the turn after that is in %v: %v", again, err)
	}
	x.send("GET", definitionsPath+"/anchors.example.com", "", 404)
}

// The objects that an earlier definition has left behind are removed before the definition is created again, however many there are, in
// transactions of a bounded size.
func TestManyLeftoversAreRemovedInParts(t *testing.T) {
	x := newTurns(t)
	x.define("anchors", "Anchor")
	const most, parts = 500, 3
	x.anchors(most*(parts-1) + 1)
	x.send("DELETE", definitionsPath+"/anchors.example.com", "", 200)
	x.send("PATCH", definitionsPath+"/anchors.example.com", `{"metadata":{"finalizers":null}}`, 200)
	var removals []int
	x.c.Pipeline.CountCommits(func(writes []resources.Write, err error, _ time.Duration) {
		n := 0
		for _, w := range writes {
			if w.Op == resources.Delete && w.Key.Resource == "anchors.example.com" {
				n++
			}
		}
		if err == nil && n > 0 {
			removals = append(removals, n)
		}
	})
	x.define("anchors", "Anchor")
	if len(removals) != parts || slices.Max(removals) > most {
		t.Errorf("%d objects were removed by each transaction", removals)
	}
	if n := x.send("GET", "/apis/example.com/v1/anchors", "", 200).Get("items.#").Int(); n != 0 {
		t.Errorf("%d objects came again", n)
	}
}
