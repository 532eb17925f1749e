package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/handlers"
)

// stream is an open watch.
type stream struct {
	*api
	header http.Header
	lines  *bufio.Reader
}

// watch opens a watch. The path must not have the "watch" parameter yet.
func (a *api) watch(s *httptest.Server, path string, header says) *stream {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	a.Cleanup(cancel)
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+a.fill(path)+sep+"watch=true", nil)
	if err != nil {
		a.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := s.Client().Do(r)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != 200 {
		a.Fatalf("watch %s: %s", path, response.Status)
	}
	return &stream{api: a, header: response.Header, lines: bufio.NewReader(response.Body)}
}

// next returns the next event.
func (s *stream) next() string {
	s.Helper()
	line, err := s.lines.ReadString('\n')
	if err != nil {
		s.Fatalf("the watch ended: %v", err)
	}
	return line
}

// expect reads events, each given by its type, its object's name and its data.
func (s *stream) expect(events ...string) {
	s.Helper()
	for _, want := range events {
		line := s.next()
		got := gjson.Get(line, "type").String() + " " + gjson.Get(line, "object.metadata.name").String() + " " + gjson.Get(line, "object.data").Raw
		if strings.TrimSpace(got) != want {
			s.Fatalf("event %s\nwant  %s\n%s", got, want, line)
		}
	}
}

// ends checks that nothing more arrives.
func (s *stream) ends() {
	s.Helper()
	if rest, err := io.ReadAll(s.lines); err != nil || len(rest) > 0 {
		s.Errorf("more came: %s (%v)", rest, err)
	}
}

func configMap(name, label, data string) exchange {
	return exchange{do: "POST " + configMaps, code: 201, body: `{"metadata":{"name":"` + name + `","labels":{"l":"` + label + `"}},"data":{"k":"` + data + `"}}`}
}

func patched(name, patch string) exchange {
	return exchange{do: "PATCH " + configMaps + "/" + name, header: asMergePatch, body: patch, code: 200}
}

func deleted(name string) exchange {
	return exchange{do: "DELETE " + configMaps + "/" + name, code: 200}
}

// "Efficient detection of changes": each change once and in order, from a resourceVersion or after the current state.
func TestWatch(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	first := configMap("a", "x", "1")
	first.keep = says{"rv": "metadata.resourceVersion"}
	a.run(first, patched("a", `{"data":{"k":"2"}}`))

	fromRevision, fromState := a.watch(s, configMaps+"?resourceVersion={rv}", nil), a.watch(s, configMaps, nil)
	legacy := a.watch(s, "/api/v1/watch/namespaces/test/configmaps/b", nil)
	one := a.watch(s, configMaps+"?fieldSelector=metadata.name%3Db", nil)
	everywhere := a.watch(s, "/api/v1/configmaps?resourceVersion=0&fieldSelector=metadata.namespace!=kube-system", nil)
	if got := fromRevision.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %s", got)
	}
	a.run(configMap("b", "y", "3"), patched("b", `{"data":{"k":"4"}}`), deleted("b"), configMap("c", "y", "5"))
	ofB := []string{`ADDED b {"k":"3"}`, `MODIFIED b {"k":"4"}`, `DELETED b {"k":"4"}`}
	fromRevision.expect(`MODIFIED a {"k":"2"}`)
	fromRevision.expect(ofB...)
	fromRevision.expect(`ADDED c {"k":"5"}`)
	for _, w := range []*stream{fromState, everywhere} {
		w.expect(`ADDED a {"k":"2"}`)
		w.expect(ofB...)
		w.expect(`ADDED c {"k":"5"}`)
	}
	legacy.expect(ofB...)
	one.expect(ofB...)
}

// A DELETED event has the revision of the deletion, so that a client resumes after it.
func TestWatchRevisions(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	a.run(exchange{do: "GET " + configMaps, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	w := a.watch(s, configMaps+"?resourceVersion={rv}", nil)
	a.run(configMap("a", "x", "1"), patched("a", `{"data":{"k":"2"}}`), deleted("a"))
	last := gjson.Result{}
	for range 3 {
		rv := gjson.Get(w.next(), "object.metadata.resourceVersion")
		if last.Exists() && rv.Int() != last.Int()+1 {
			t.Errorf("revision %s comes after %s", rv, last)
		}
		last = rv
	}
	a.kept["rv"] = last.String()
	resumed := a.watch(s, configMaps+"?resourceVersion={rv}", nil)
	a.run(configMap("b", "x", "1"))
	resumed.expect(`ADDED b {"k":"1"}`)
}

// An object that begins to match a selector is ADDED, and one that no longer matches is DELETED.
func TestWatchSelectorTransitions(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	a.run(configMap("a", "x", "1"), configMap("b", "y", "1"))
	w := a.watch(s, configMaps+"?labelSelector=l%3Dx", nil)
	a.run(
		patched("b", `{"data":{"k":"2"}}`),
		patched("b", `{"metadata":{"labels":{"l":"x"}}}`),
		patched("b", `{"data":{"k":"3"}}`),
		patched("b", `{"metadata":{"labels":{"l":"y"}},"data":{"k":"4"}}`),
		deleted("b"),
		deleted("a"))
	w.expect(`ADDED a {"k":"1"}`, `ADDED b {"k":"2"}`, `MODIFIED b {"k":"3"}`, `DELETED b {"k":"3"}`, `DELETED a {"k":"1"}`)

	phase := a.watch(s, "/api/v1/namespaces/test/pods?fieldSelector=status.phase%3DRunning", nil)
	a.run(
		exchange{do: "POST /api/v1/namespaces/test/pods", body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, code: 201},
		exchange{do: "PATCH /api/v1/namespaces/test/pods/p/status", header: asMergePatch, body: `{"status":{"phase":"Running"}}`, code: 200},
		exchange{do: "PATCH /api/v1/namespaces/test/pods/p/status", header: asMergePatch, body: `{"status":{"phase":"Failed"}}`, code: 200})
	phase.expect("ADDED p", "DELETED p")
}

// With a resourceVersion in the future there are no events until the store has passed it.
func TestWatchFutureRevision(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	first := configMap("a", "x", "1")
	first.keep = says{"rv": "metadata.resourceVersion"}
	a.run(first)
	a.kept["rv"] = resources.FormatRevision(gjson.Parse(a.kept["rv"]).Int() + 2)
	w := a.watch(s, configMaps+"?resourceVersion={rv}", nil)
	a.run(configMap("b", "x", "1"), configMap("c", "x", "1"), configMap("d", "x", "1"))
	w.expect(`ADDED d {"k":"1"}`)
}

// "Streaming lists": the state as events, then a bookmark for its end, then changes.
func TestStreamingLists(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	a.run(configMap("a", "x", "1"), exchange{do: "GET " + configMaps, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	w := a.watch(s, configMaps+"?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil)
	w.expect(`ADDED a {"k":"1"}`)
	bookmark := w.next()
	for path, want := range map[string]string{"type": "BOOKMARK", "object.kind": "ConfigMap", "object.apiVersion": "v1",
		"object.metadata": `{"resourceVersion":"` + a.kept["rv"] + `","annotations":{"k8s.io/initial-events-end":"true"}}`} {
		if got := gjson.Get(bookmark, path).String(); got != want {
			t.Errorf("%s of the bookmark is %s\nwant %s", path, got, want)
		}
	}
	rows := a.watch(s, configMaps+"?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&includeObject=None", asTable)
	if row := rows.next(); gjson.Get(row, "object.rows.0.object").Type != gjson.Null {
		t.Errorf("a row without its object has one: %s", row)
	}
	if end := rows.next(); gjson.Get(end, `object.rows.0.object.metadata.annotations.k8s\.io/initial-events-end`).Str != "true" {
		t.Errorf("the rows do not say that the initial events were sent: %s", end)
	}
	a.run(configMap("b", "x", "1"))
	w.expect(`ADDED b {"k":"1"}`)

	without := a.watch(s, configMaps+"?sendInitialEvents=false&resourceVersionMatch=NotOlderThan", nil)
	a.run(configMap("c", "x", "1"))
	without.expect(`ADDED c {"k":"1"}`)
	const needs = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
	a.run(
		exchange{do: "GET " + configMaps + "?watch=1&sendInitialEvents=true", code: 422, says: says{"details.causes.0.message": "Forbidden: " + needs}},
		exchange{do: "GET " + configMaps + "?watch=1&resourceVersionMatch=NotOlderThan", code: 422},
		exchange{do: "GET " + configMaps + "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan", code: 422},
		exchange{do: "GET " + configMaps + "?watch=1&resourceVersion=abc", code: 500},
		exchange{do: "GET " + configMaps + "?watch=1", header: says{"Accept": "application/yaml"}, code: 406},
	)
}

func TestWatchForms(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	a.run(configMap("a", "x", "1"))
	tables, partial := a.watch(s, configMaps, asTable), a.watch(s, configMaps, asPartial)
	a.run(deleted("a"))
	for i, want := range []says{
		{"type": "ADDED", "object.kind": "Table", "object.columnDefinitions.#": "3", "object.rows.#": "1", "object.rows.0.cells.0": "a", "object.rows.0.object.kind": "PartialObjectMetadata"},
		{"type": "DELETED", "object.columnDefinitions": "", "object.rows.0.cells.0": "a"},
	} {
		line := tables.next()
		for path, want := range want {
			if got := gjson.Get(line, path).String(); got != want {
				t.Errorf("event %d of the table: %s is %q, want %q", i, path, got, want)
			}
		}
	}
	partial.expect("ADDED a", "DELETED a")
}

// A watch lasts as long as the client requests.
func TestWatchTimeout(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	a.run(configMap("a", "x", "1"))
	w := a.watch(s, configMaps+"?timeoutSeconds=1", nil)
	w.expect(`ADDED a {"k":"1"}`)
	w.ends()
}

// hasty serves the handlers alone, with a short period of bookmarks.
func (a *api) hasty(draining <-chan struct{}) *httptest.Server {
	h := handlers.New(handlers.Config{Registry: a.registry, Store: a.store, Pipeline: resources.NewPipeline(a.store, resources.PipelineOptions{}), Logger: slog.New(slog.DiscardHandler), BookmarkPeriod: time.Millisecond, Draining: draining})
	infos := &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err == nil {
			err = h.Serve(w, r.WithContext(genericapirequest.WithRequestInfo(r.Context(), info)), info)
		}
		if err != nil {
			a.Error(err)
		}
	}))
	a.Cleanup(s.Close)
	return s
}

// "Watch bookmarks": they move a client past changes of other objects, and never ahead of an event.
func TestBookmarks(t *testing.T) {
	a := newAPI(t)
	s := a.hasty(nil)
	w := a.watch(s, configMaps+"?allowWatchBookmarks=true&labelSelector=l%3Dx", nil)
	a.run(configMap("other", "y", "1"), exchange{do: "GET " + configMaps, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	reached := gjson.Parse(a.kept["rv"]).Int()
	for {
		line := w.next()
		if got := gjson.Get(line, "type").String(); got != "BOOKMARK" {
			t.Fatalf("an event that was not asked for: %s", line)
		}
		if rv := gjson.Get(line, "object.metadata.resourceVersion").Int(); rv >= reached {
			break
		}
	}
	mine := configMap("mine", "x", "1")
	mine.keep = says{"rv": "metadata.resourceVersion"}
	a.run(mine)
	created := gjson.Parse(a.kept["rv"]).Int()
	for {
		line := w.next()
		rv := gjson.Get(line, "object.metadata.resourceVersion").Int()
		if gjson.Get(line, "type").String() == "ADDED" {
			break
		}
		if rv >= created {
			t.Fatalf("a bookmark at %d comes before the event at %d", rv, created)
		}
	}
}

// A watch from a future revision has no bookmarks before that revision has passed.
func TestNoBookmarksAhead(t *testing.T) {
	a := newAPI(t)
	s := a.hasty(nil)
	a.run(exchange{do: "GET " + configMaps, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	reached := gjson.Parse(a.kept["rv"]).Int()
	a.watch(s, fmt.Sprintf("%s?allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=%d", configMaps, reached+1), nil).ends()
	w := a.watch(s, fmt.Sprintf("%s?allowWatchBookmarks=true&resourceVersion=%d", configMaps, reached+1), nil)
	a.run(configMap("passed", "y", "1"), configMap("shown", "y", "1"))
	for added := false; ; {
		line := w.next()
		if gjson.Get(line, "type").String() != "BOOKMARK" {
			added = true
		} else if rv := gjson.Get(line, "object.metadata.resourceVersion").Int(); added && rv >= reached+2 {
			break
		} else if rv > reached+1 {
			t.Fatalf("a bookmark comes before the event: %s", line)
		}
	}
}

// Events have no watch cache, so their watches have no bookmark but the one after the initial events.
func TestBookmarksOfEvents(t *testing.T) {
	a := newAPI(t)
	s := a.hasty(nil)
	const events = "/api/v1/namespaces/test/events?allowWatchBookmarks=true&timeoutSeconds=1"
	initial := a.watch(s, events, nil)
	if line := initial.next(); gjson.Get(line, `object.metadata.annotations.k8s\.io/initial-events-end`).Str != "true" {
		t.Errorf("the watch begins with %s", line)
	}
	initial.ends()
	a.run(exchange{do: "GET /api/v1/events", code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	a.watch(s, events+"&resourceVersion="+a.kept["rv"], nil).ends()
}

// A server that shuts down ends its watches after their last events.
func TestWatchDrains(t *testing.T) {
	a := newAPI(t)
	draining := make(chan struct{})
	w := a.watch(a.hasty(draining), configMaps, nil)
	a.run(configMap("a", "x", "1"))
	close(draining)
	w.expect(`ADDED a {"k":"1"}`)
	w.ends()
}

// A watch whose revision is in history survives a temporarily unavailable store: no event is lost, and the client notices nothing.
func TestWatchOutlivesUnavailableStore(t *testing.T) {
	a := newAPI(t)
	s := a.listen()
	path := "/api/v1/namespaces/test/configmaps"
	a.run(exchange{do: "GET " + path, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	w := a.watch(s, path+"?resourceVersion={rv}", nil)
	a.store.unavailable.Store(5)
	a.run(exchange{do: "POST " + path, body: `{"metadata":{"name":"one"},"data":{"a":"1"}}`, code: 201},
		exchange{do: "POST " + path, body: `{"metadata":{"name":"two"},"data":{"a":"2"}}`, code: 201})
	w.expect(`ADDED one {"a":"1"}`, `ADDED two {"a":"2"}`)
	if left := a.store.unavailable.Load(); left >= 0 {
		t.Errorf("the store was asked %d times too few", left)
	}
}

// While the store is unavailable, a watch neither ends early nor lasts longer than it may.
func TestWatchOfAnUnavailableStoreEndsInTime(t *testing.T) {
	a := newAPI(t)
	a.run(exchange{do: "GET " + configMaps, code: 200, keep: says{"rv": "metadata.resourceVersion"}})
	const always = 1 << 40
	a.store.unavailable.Store(always)
	code, body := a.request("GET", a.fill(configMaps+"?watch=1&timeoutSeconds=1&resourceVersion={rv}"), "", nil)
	if code != 200 || len(body) > 0 {
		t.Errorf("%d %s", code, body)
	}
	if left := a.store.unavailable.Load(); left == always {
		t.Error("the store was not asked")
	}
}
