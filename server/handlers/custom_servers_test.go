package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// generation is a definition that marks the objects rendered with it, by a default for a field that no other definition has.
func generation(n int) string {
	return widgetVersion("v1", fmt.Sprintf(`{"type":"object","properties":{"of%d":{"type":"integer","default":%d}}}`, n, n), true)
}

// generationOf is the number of the definition with which an object was rendered or stored; -1 if unknown.
func generationOf(object gjson.Result) int {
	found := -1
	object.Get("spec").ForEach(func(key, value gjson.Result) bool {
		if _, err := fmt.Sscanf(key.Str, "of%d", &found); err != nil {
			found = -1
		}
		return false
	})
	return found
}

// seen is an object as a client received it.
type seen struct {
	revision   int64
	generation int
}

// watcher lists and watches widgets as informers do, until it receives the object "last".
type watcher struct {
	t      *testing.T
	server *httptest.Server
	seen   []seen
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		if w.once(ctx) {
			return
		}
	}
	w.t.Error("a watcher did not see the last object: its watch was silent")
}

// once lists and watches until the watch ends. It returns whether the last object was received.
func (w *watcher) once(ctx context.Context) (last bool) {
	list := w.get(ctx, widgets)
	if list == nil {
		return false
	}
	defer list.Body.Close()
	var rv string
	lines := bufio.NewScanner(list.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		body := gjson.ParseBytes(lines.Bytes())
		rv = body.Get("metadata.resourceVersion").Str
		for _, o := range body.Get("items").Array() {
			last = w.note(o, body.Get("metadata.resourceVersion").Int()) || last
		}
	}
	if last || rv == "" {
		return last
	}
	events := w.get(ctx, widgets+"?watch=1&resourceVersion="+rv)
	if events == nil {
		return false
	}
	defer events.Body.Close()
	lines = bufio.NewScanner(events.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		e := gjson.ParseBytes(lines.Bytes())
		switch e.Get("type").Str {
		case "ERROR":
			if e.Get("object.code").Int() != http.StatusGone {
				w.t.Errorf("a watch ended with %s", e.Raw)
			}
			return false
		case "ADDED":
			if w.note(e.Get("object"), e.Get("object.metadata.resourceVersion").Int()) {
				return true
			}
		}
	}
	return false
}

func (w *watcher) note(o gjson.Result, revision int64) (last bool) {
	w.seen = append(w.seen, seen{revision, generationOf(o)})
	return o.Get("metadata.name").Str == "last"
}

func (w *watcher) get(ctx context.Context, path string) *http.Response {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.server.URL+path, nil)
	if err != nil {
		w.t.Error(err)
		return nil
	}
	answer, err := w.server.Client().Do(r)
	if err != nil {
		if ctx.Err() == nil {
			w.t.Error(err)
		}
		return nil
	}
	return answer
}

// While definitions change how a version's objects are rendered, no list or watch returns an object rendered with an older definition than the one
// it was written under, or the list was read under, and no watch goes silent.
func TestWatchesFollowDefinitions(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201})
		const watchers, changes = 6, 12
		server := a.listen()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		all := make([]*watcher, watchers)
		var watching, writing sync.WaitGroup
		for i := range all {
			all[i] = &watcher{t: t, server: server}
			watching.Go(func() { all[i].run(ctx) })
		}
		stop, written := make(chan struct{}), make(chan struct{})
		for w := range 2 {
			writing.Go(func() {
				for i := 0; ; i++ {
					if code, answer := a.request("POST", widgets, widget(fmt.Sprintf("w%d-%d", w, i), `{}`), nil); code != http.StatusCreated {
						t.Errorf("%d %s", code, answer)
					}
					select {
					case written <- struct{}{}:
					case <-stop:
						return
					}
				}
			})
		}
		for n := range changes {
			<-written
			<-written
			if code, answer := a.request("PATCH", definitions+"/widgets.example.com", `{"spec":{"versions":[`+generation(n+1)+`]}}`, asMergePatch); code != http.StatusOK {
				t.Errorf("%d %s", code, answer)
			}
		}
		close(stop)
		writing.Wait()
		a.run(exchange{do: "POST " + widgets, body: widget("last", `{}`), code: 201})
		watching.Wait()
		log := a.events(t, "customresourcedefinitions.apiextensions.k8s.io")
		for i, w := range all {
			for _, s := range w.seen {
				if at := generationAt(log, s.revision); s.generation < at {
					t.Errorf("watcher %d saw revision %d by definition %d, when %d was the present one", i, s.revision, s.generation, at)
				}
			}
		}
	})
}

// generationAt is the definition in force at a revision.
func generationAt(log []*resources.Event, revision int64) int {
	present := -1
	for _, e := range log {
		if e.Revision < revision && e.Op != resources.Delete {
			const properties = "spec.versions.0.schema.openAPIV3Schema.properties.spec.properties"
			gjson.GetBytes(e.Object.Data, properties).ForEach(func(key, _ gjson.Result) bool {
				_, _ = fmt.Sscanf(key.Str, "of%d", &present)
				return false
			})
		}
	}
	return present
}

// Three servers share a database: a definition is edited, deleted and recreated during writes. No object is stored under an outdated schema, while
// its definition is being deleted, or without a definition.
func TestThreeServersWhileDefinitionsComeAndGo(t *testing.T) {
	servertest.OnServers(t, 3, func(t *testing.T, stores []*sqlstore.Store) {
		a := newAPIs(t, stores)
		a.work()
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201})
		stop, written := make(chan struct{}), make(chan struct{})
		var work sync.WaitGroup
		for w := range 6 {
			work.Go(func() {
				for i := 0; ; i++ {
					code, answer := a.request("POST", widgets, widget(fmt.Sprintf("w%d-%d", w, i), `{}`), nil)
					switch {
					case code == http.StatusCreated:
					case code == http.StatusNotFound, code == http.StatusForbidden && strings.Contains(answer, "terminating"):
						continue // the definition is missing or being deleted
					default:
						t.Errorf("%d %s", code, answer)
					}
					select {
					case written <- struct{}{}:
					case <-stop:
						return
					}
				}
			})
		}
		const lives, edits = 3, 4
		n := 0
		for range lives {
			for range edits {
				n++
				<-written
				if code, answer := a.request("PATCH", definitions+"/widgets.example.com", `{"spec":{"versions":[`+generation(n)+`]}}`, asMergePatch); code != http.StatusOK {
					t.Errorf("%d %s", code, answer)
				}
			}
			<-written
			a.run(exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200})
			a.until("customresourcedefinitions.apiextensions.k8s.io", "the definition goes", func() bool {
				code, _ := a.request("GET", definitions+"/widgets.example.com", "", nil)
				return code == http.StatusNotFound
			})
			n++
			a.run(exchange{do: "POST " + definitions, body: widgetDefinition(generation(n)), code: 201})
		}
		<-written
		close(stop)
		work.Wait()
		a.checkLives(t)
	})
}

// checkLives reads the log of changes, and checks each widget that was written against the definition before it.
func (a *api) checkLives(t *testing.T) {
	t.Helper()
	log := a.events(t, "customresourcedefinitions.apiextensions.k8s.io")
	for _, e := range a.events(t, "widgets.example.com") {
		var definition *resources.Event
		for _, d := range log {
			if d.Revision < e.Revision {
				definition = d
			}
		}
		switch {
		case definition == nil || definition.Op == resources.Delete:
			t.Errorf("%s was written at %d, when there was no definition", e.Object.Name, e.Revision)
		case e.Op != resources.Create:
		case gjson.GetBytes(definition.Object.Data, "metadata.deletionTimestamp").Exists():
			t.Errorf("%s was created at %d, while its definition was being deleted", e.Object.Name, e.Revision)
		case generationOf(gjson.ParseBytes(e.Object.Data)) != generationAt(log, e.Revision):
			t.Errorf("%s was written at %d as %s, by definition %d", e.Object.Name, e.Revision, gjson.GetBytes(e.Object.Data, "spec").Raw, generationAt(log, e.Revision))
		}
	}
}

// A watch on one server returns no event rendered with a definition that was changed through another server before the event: it ends if the bytes
// differ, although nothing has notified its server of the change.
func TestWatchOnAnotherServer(t *testing.T) {
	servertest.OnServers(t, 2, func(t *testing.T, stores []*sqlstore.Store) {
		gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		one, other := newServer(t, gates, stores[0]), newServer(t, gates, stores[1])
		one.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"test"}}`, code: 201},
			exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201},
			exchange{do: "POST " + widgets, body: widget("before", `{}`), code: 201})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		w := &watcher{t: t, server: other.listen()}
		answer := w.get(ctx, widgets+"?watch=1")
		if answer == nil {
			t.FailNow()
		}
		defer answer.Body.Close()
		events := bufio.NewScanner(answer.Body)
		if !events.Scan() || gjson.GetBytes(events.Bytes(), "object.spec").Raw != `{"of0":0}` {
			t.Fatalf("the watch begins with %s", events.Bytes())
		}
		one.run(exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + generation(1) + `]}}`, code: 200},
			exchange{do: "POST " + widgets, body: widget("after", `{}`), code: 201, says: says{"spec": `{"of1":1}`}})
		if !events.Scan() || gjson.GetBytes(events.Bytes(), "type").Str != "ERROR" || gjson.GetBytes(events.Bytes(), "object.code").Int() != http.StatusGone {
			t.Errorf("the watch goes on with %s", events.Bytes())
		}
	})
}

// If a conversion fails only because a server does not yet know of a new storage version, the request is not answered with that error.
func TestConversionByTheDefinitionBefore(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		hook := newConverter(t)
		hook.down()
		a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
		for i := range 10 {
			a.run(storeIn("v2"), exchange{do: "GET " + widgets, code: 200}, storeIn("v1"),
				exchange{do: "POST " + widgets, body: widget(fmt.Sprint("w", i), `{"one":1}`), code: 201},
				exchange{do: "DELETE " + widgets + "/" + fmt.Sprint("w", i), code: 200})
		}
	})
}
