package controlplane

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// lookedAt counts the reads of the objects of a type, and the reads of definitions from the database.
type lookedAt struct {
	resources.Store
	resource string
	count    int
}

func (s *lookedAt) Get(ctx context.Context, key resources.Key, at resources.At) (*resources.Object, error) {
	if key.Resource == definitionsResource && at.Match == resources.MostRecent {
		s.count++
	}
	return s.Store.Get(ctx, key, at)
}

func (s *lookedAt) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if resource == s.resource {
		s.count++
	}
	return s.Store.Snapshot(ctx, resource, at)
}

// A definition whose objects are kept by finalizers is looked at again when one of them, or the definition, has changed. It goes with its last object.
func TestDefinitionsThatWaitForTheirObjects(t *testing.T) {
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) {
		s, c := servertest.New(t, func(c *server.Config) {
			c.Store, c.Pipeline = stores[0], resources.NewPipeline(stores[0], resources.PipelineOptions{})
			c.Authenticator = func(*http.Request) (user.Info, bool, error) { return &user.DefaultInfo{Name: "u"}, true, nil }
		})
		store := &lookedAt{Store: stores[0], resource: "widgets.example.com"}
		writes := &refusing{}
		writes.allow.Store(true)
		p := New(Config{Registry: c.Registry, Store: store, Pipeline: resources.NewPipeline(stores[0], resources.PipelineOptions{}), Logger: c.Logger, Front: s,
			Definitions: c.Definitions.(Definitions)})
		p.Pipeline.Use(writes, nil)
		x := &repairs{T: t, s: s}
		const (
			definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
			objects     = "/apis/example.com/v1/namespaces/default/widgets"
			definition  = `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
				"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
		)
		x.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"default"}}`, 201)
		x.send("POST", definitions, definition, 201)
		x.send("POST", definitions, strings.ReplaceAll(definition, "widgets", "gadgets"), 201) // it waits for the kind
		for _, name := range []string{"a", "b"} {
			x.send("POST", objects, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"`+name+`","finalizers":["example.com/stay"]}}`, 201)
		}
		x.send("POST", objects, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"c"}}`, 201)
		x.send("DELETE", definitions+"/widgets.example.com", "", 200)

		chore := p.keepDefinitions()
		looks := func() bool {
			t.Helper()
			store.count = 0
			writes.count.Store(0)
			again, err := chore.do(t.Context(), nil)
			if err != nil || again != instancesLeft {
				t.Errorf("again in %v, %v", again, err)
			}
			return store.count > 0 || writes.count.Load() > 0
		}
		quiet := func(what string) {
			t.Helper()
			if !looks() {
				t.Errorf("%s: nothing is looked at", what)
			}
			looks() // the first look may have changed the definition
			if looks() {
				t.Errorf("%s: without a change, %d reads and %d writes", what, store.count, writes.count.Load())
			}
		}
		quiet("after the deletion")
		x.send("GET", objects+"/c", "", 404)
		x.send("PATCH", definitions+"/widgets.example.com", `{"metadata":{"labels":{"a":"b"}}}`, 200)
		quiet("after a change of the definition")
		x.send("PATCH", objects+"/a", `{"metadata":{"finalizers":null}}`, 200)
		quiet("after the end of one object")
		x.send("PATCH", objects+"/b", `{"metadata":{"finalizers":null}}`, 200)
		if again, err := chore.do(t.Context(), nil); err != nil || again != 0 {
			t.Errorf("after the end of the last object: again in %v, %v", again, err)
		}
		x.send("GET", definitions+"/widgets.example.com", "", 404)
		if got := x.send("GET", definitions+"/gadgets.example.com", "", 200).Get(`status.conditions.#(type=="Established").status`).Str; got != "True" {
			if _, err := chore.do(t.Context(), nil); err != nil {
				t.Error(err)
			}
		}
		x.send("GET", strings.Replace(objects, "widgets", "gadgets", 1), "", 200)
	})
}
