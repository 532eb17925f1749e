package handlers_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// informer is a client's copy of the objects at a path, and the resourceVersion from which it watches them.
type informer struct {
	*api
	server   *httptest.Server
	path     string
	revision string
	objects  map[string]string
}

// inform lists the objects at a path.
func (a *api) inform(s *httptest.Server, path string) *informer {
	a.Helper()
	i := &informer{api: a, server: s, path: path}
	i.list()
	return i
}

func (i *informer) list() {
	i.Helper()
	answer, err := i.server.Client().Get(i.server.URL + i.path)
	if err != nil {
		i.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		i.Fatalf("list: %s %s %v", answer.Status, data, err)
	}
	list := gjson.ParseBytes(data)
	i.revision, i.objects = list.Get("metadata.resourceVersion").Str, map[string]string{}
	for _, o := range list.Get("items").Array() {
		i.objects[o.Get("metadata.name").Str] = o.Get("@ugly").Raw
	}
}

// resume watches from the revision of the copy until an object comes, or as many events, and lists again if that revision has expired.
func (i *informer) resume(last string, most int) (expired bool) {
	i.Helper()
	sep := "?"
	if strings.Contains(i.path, "?") {
		sep = "&"
	}
	events := i.watch(i.server, i.path+sep+"resourceVersion="+i.revision, nil)
	for n := 0; ; {
		e := gjson.Parse(events.next())
		o := e.Get("object")
		name := o.Get("metadata.name").Str
		switch e.Get("type").Str {
		case "ERROR":
			if o.Get("code").Int() != http.StatusGone || o.Get("reason").Str != "Expired" {
				i.Fatalf("the watch ended with %s", e.Raw)
			}
			i.list()
			return true
		case "DELETED":
			delete(i.objects, name)
		default:
			i.objects[name] = o.Get("@ugly").Raw
		}
		i.revision = o.Get("metadata.resourceVersion").Str
		if n++; name == last || n == most {
			return false
		}
	}
}

// follows checks whether the revision of the copy has expired, and that the copy then equals a new list.
func (i *informer) follows(what, last string, expires bool) {
	i.Helper()
	if expired := i.resume(last, -1); expired != expires {
		i.Errorf("%s: the watch of %s has expired: %t, want %t", what, i.path, expired, expires)
	}
	i.equals(what)
}

// equals checks that the copy equals a new list.
func (i *informer) equals(what string) {
	i.Helper()
	if now := i.inform(i.server, i.path); !maps.Equal(i.objects, now.objects) {
		i.Errorf("%s: an informer of %s has %v\nwant %v", what, i.path, i.objects, now.objects)
	}
}

func editWidgets(patch string) exchange {
	return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: patch, code: 200}
}

func withVersions(versions ...string) exchange {
	return editWidgets(`{"spec":{"versions":[` + strings.Join(versions, ",") + `]}}`)
}

// A watch does not begin at a revision from before an edit that changed the bytes of its version: the client would keep the old bytes of objects
// that do not change. Other edits let it go on.
func TestWatchFromBeforeAnEdit(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		s, another := a.listen(), newConverter(t)
		const loose = `{"type":"object","properties":{"size":{"type":"integer"},"old":{"type":"string"},"color":{"type":"string"}}}`
		defaulted := strings.Replace(loose, `"size":{"type":"integer"}`, `"size":{"type":"integer"},"new":{"type":"string","default":"x"}`, 1)
		pruned := strings.Replace(defaulted, `"old":{"type":"string"},`, "", 1)
		const selectable = `"selectableFields":[{"jsonPath":".spec.color"}],`
		v1 := func(spec string) string { return widgetVersion("v1", spec, true) }
		v2 := func(spec string) string { // selectable fields and schemas must both differ between versions, or neither
			return strings.NewReplacer(selectable, "", "A widget.", "Another widget.").Replace(widgetVersion("v2", spec, false))
		}
		unserved := func(version string) string { return strings.Replace(version, `"served":true`, `"served":false`, 1) }
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(v1(loose), v2(loose)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1,"old":"o","color":"red"}`), code: 201})
		for _, c := range []struct {
			edit         string
			do           []exchange
			in1, in2, by bool // the watches of v1, of v2 and of v1 by a field that expire
		}{
			{edit: "a label", do: []exchange{editWidgets(`{"metadata":{"labels":{"l":"1"}}}`)}},
			{edit: "a description", do: []exchange{withVersions(strings.Replace(v1(loose), "A widget.", "One widget.", 1), v2(loose))}},
			{edit: "a column", do: []exchange{withVersions(strings.Replace(v1(loose), `"Size"`, `"Measure"`, 1), v2(loose))}},
			{edit: "a status", do: []exchange{{do: "PATCH " + definitions + "/widgets.example.com/status", header: asMergePatch, code: 200,
				body: `{"status":{"storedVersions":["v2","v1"]}}`}}},
			{edit: "a selectable field that goes and comes back", do: []exchange{
				withVersions(strings.Replace(v1(loose), selectable, "", 1), v2(loose)),
				{do: "PATCH " + widgets + "/a", header: asMergePatch, body: `{"spec":{"color":"blue"}}`, code: 200},
				withVersions(v1(loose), v2(loose))}},
			{edit: "a default in v1", do: []exchange{withVersions(v1(defaulted), v2(loose))}, in1: true, by: true},
			{edit: "a field that goes", do: []exchange{withVersions(v1(pruned), v2(loose))}, in1: true, in2: true, by: true},
			{edit: "v2 is unserved, and served with a default", do: []exchange{withVersions(v1(pruned), unserved(v2(loose))), withVersions(v1(pruned), v2(defaulted))},
				in1: true, in2: true, by: true}, // objects may be stored in v2
			{edit: "a webhook", do: []exchange{editWidgets(`{"spec":{"conversion":` + gjson.Get(another.definition("v1"), "spec.conversion").Raw + `}}`)}, in1: true, in2: true, by: true},
		} {
			in1, in2, by := a.inform(s, widgets), a.inform(s, widgetsAsV2), a.inform(s, widgets+"?fieldSelector=spec.color%3Dred")
			a.run(c.do...)
			last := "last-" + in1.revision
			a.run(exchange{do: "POST " + widgets, body: widget(last, `{"size":1,"color":"red"}`), code: 201})
			in1.follows(c.edit, last, c.in1)
			in2.follows(c.edit, last, c.in2)
			by.follows(c.edit, last, c.by)
		}
	})
}

// A server that has started since a client listed cannot tell edits of a definition from each other: a watch goes on if the definition has not
// changed since, and begins anew if it has.
func TestWatchAfterRestart(t *testing.T) {
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) {
		a := newAPIs(t, stores)
		restarted := func() (*api, *httptest.Server) {
			a := newServer(t, utilfeature.DefaultMutableFeatureGate.DeepCopy(), stores[len(stores)-1])
			return a, a.listen()
		}
		create := func(name string) exchange {
			return exchange{do: "POST " + widgets, body: widget(name, `{}`), code: 201}
		}
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201}, create("a"))
		unchanged := a.inform(a.listen(), widgets)
		a.run(create("b"))
		b, s := restarted()
		unchanged.server = s
		unchanged.follows("no edit", "b", false)
		edited := b.inform(s, widgets)
		b.run(withVersions(generation(1)), create("c"))
		c, s := restarted()
		edited.server = s
		edited.follows("an edit", "c", true)
		edited.objects = nil // the list is of after the edit
		edited.list()
		c.run(create("d"))
		_, edited.server = restarted()
		edited.follows("an edit before the list", "d", false)
	})
}

// While definitions change the bytes of a version, informers whose connections break again and again keep no old bytes.
func TestInformersThatResume(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201}, exchange{do: "POST " + widgets, body: widget("first", `{}`), code: 201})
		s := a.listen()
		informers := []*informer{a.inform(s, widgets), a.inform(s, widgets), a.inform(s, widgets)}
		var writing sync.WaitGroup
		done := make(chan struct{})
		stop := sync.OnceFunc(func() {
			close(done)
			writing.Wait()
		})
		defer stop()
		writing.Go(func() {
			for n := 1; ; n++ {
				if code, answer := a.request("POST", widgets, widget(fmt.Sprint("w", n), `{}`), nil); code != http.StatusCreated {
					t.Errorf("%d %s", code, answer)
				}
				if code, answer := a.request("PATCH", definitions+"/widgets.example.com", `{"spec":{"versions":[`+generation(n/3)+`]}}`, asMergePatch); code != http.StatusOK {
					t.Errorf("%d %s", code, answer)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
		for range 20 {
			for n, i := range informers {
				i.resume("", n+1)
			}
		}
		stop()
		a.run(exchange{do: "POST " + widgets, body: widget("last", `{}`), code: 201})
		for _, i := range informers {
			i.resume("last", -1)
			i.equals("edits")
		}
	})
}

// A bookmark does not pass an edit that changed the bytes of its version, though nothing has notified its server of the edit: a client that goes on
// from there would keep the old bytes.
func TestBookmarkAfterEditOnAnotherServer(t *testing.T) {
	servertest.OnServers(t, 2, func(t *testing.T, stores []*sqlstore.Store) {
		gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		one, other := newServer(t, gates, stores[0]), newServer(t, gates, stores[1])
		one.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"test"}}`, code: 201},
			exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{}`), code: 201})
		s := other.listen()
		for n := 1; n <= 10; n++ {
			other.run(exchange{do: "GET " + widgets, code: 200, keep: keptAs("now")})
			w := other.watch(s, fmt.Sprint(widgets, "?resourceVersion={now}&allowWatchBookmarks=true&timeoutSeconds=", 2+n), nil)
			edit := withVersions(generation(n))
			edit.keep = keptAs("edit")
			one.run(edit)
			if _, err := stores[1].Snapshot(t.Context(), "widgets.example.com", resources.At{Match: resources.MostRecent}); err != nil {
				t.Fatal(err)
			}
			edited, err := strconv.ParseInt(one.kept["edit"], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			e := gjson.Parse(w.next())
			if e.Get("type").Str == "BOOKMARK" && e.Get("object.metadata.resourceVersion").Int() < edited {
				continue // it was sent before the edit, and shows nothing: the next one comes a second later
			}
			if e.Get("type").Str != "ERROR" || e.Get("object.code").Int() != http.StatusGone {
				t.Errorf("got %s after the edit at %d, want an error with 410", e.Raw, edited)
			}
			return
		}
		t.Error("every bookmark was sent before the edit")
	})
}
