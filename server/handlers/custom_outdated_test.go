package handlers_test

import (
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// duringBody is a body that calls a function before it is read.
type duringBody struct {
	io.Reader
	before func()
}

func (b *duringBody) Read(p []byte) (int, error) {
	if b.before != nil {
		b.before()
		b.before = nil
	}
	return b.Reader.Read(p)
}

// sendDuring sends a request during which f is called: its type is determined before, its body is read after.
func (a *api) sendDuring(e exchange, f func()) {
	a.Helper()
	method, path, _ := strings.Cut(e.do, " ")
	r := httptest.NewRequest(method, path, &duringBody{strings.NewReader(e.body), f}).WithContext(a.Context())
	for name, value := range e.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	a.check(e, w.Result())
}

// A request that is refused by a definition which has been replaced meanwhile, perhaps through another server, is answered by the present
// definition, also where the refusal is an error of the server or a conflict.
func TestRefusalsByReplacedDefinition(t *testing.T) {
	const open = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	const closed = `{"type":"object","properties":{"size":{"type":"integer"}}}`
	const list = `{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"}}}}`
	set := strings.Replace(list, `"array"`, `"array","x-kubernetes-list-type":"set"`, 1)
	apply := func(spec string) exchange {
		return exchange{do: "PATCH " + widgets + "/a?fieldManager=second", header: asApply, body: widget("a", spec), code: 200}
	}
	const scale, text = widgets + "/a/scale", `{"replicas":"many","size":2}`
	for name, c := range map[string]struct {
		before, after, spec string
		request             exchange
	}{
		"apply of a new field":         {closed, strings.Replace(closed, "size", "width", 1), `{}`, apply(`{"width":1}`)},
		"apply to a list that was one": {list, set, `{"tags":["a"]}`, apply(`{"tags":["b"]}`)},
		"patch of the scale":           {open, open, text, exchange{do: "PATCH " + scale, header: asMergePatch, body: `{"spec":{"replicas":3}}`, code: 200}},
		"update of the scale": {open, open, text, exchange{do: "PUT " + scale, code: 200,
			body: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"test"},"spec":{"replicas":3}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryDatabase(t, func(t *testing.T, a *api) {
				a.TB = t
				before, after := widgetVersion("v1", c.before, true), widgetVersion("v1", c.after, true)
				if c.before == c.after { // the number of replicas is elsewhere
					after = strings.Replace(after, `"specReplicasPath":".spec.replicas"`, `"specReplicasPath":".spec.size"`, 1)
				}
				edit := func(version string) exchange {
					return exchange{do: "PATCH " + definitions + "/widgets.example.com", header: asMergePatch, body: `{"spec":{"versions":[` + version + `]}}`, code: 200}
				}
				first := widgetDefinition(before)
				if c.spec == text {
					first = widgetDefinition(after)
				}
				a.run(exchange{do: "POST " + definitions, body: first, code: 201},
					exchange{do: "PATCH " + widgets + "/a?fieldManager=first", header: asApply, body: widget("a", c.spec), code: 201},
					edit(before), exchange{do: "GET " + widgets, code: 200}, exchange{do: "GET " + widgets, code: 200})
				a.sendDuring(c.request, func() { a.run(edit(after)) })
			})
		})
	}
}

// A quota counts a new object once if its definition changes between validation and commit, so that the request is answered again.
func TestQuotaOfRepeatedCreate(t *testing.T) {
	const quotas, count = "/api/v1/namespaces/test/resourcequotas", "count/widgets.example.com"
	servertest.OnBothDatabases(t, sqlstore.Options{}, func(t *testing.T, store *sqlstore.Store) {
		a := newAPIs(t, []*sqlstore.Store{store})
		a.run(exchange{do: "POST " + definitions, body: widgetDefinition(generation(0)), code: 201},
			exchange{do: "POST " + quotas, body: `{"metadata":{"name":"q"},"spec":{"hard":{"` + count + `":"2"}}}`, code: 201},
			exchange{do: "PATCH " + quotas + "/q/status", header: asMergePatch, body: `{"status":{"hard":{"` + count + `":"2"},"used":{"` + count + `":"0"}}}`, code: 200})
		used := func(n string) exchange {
			return exchange{do: "GET " + quotas + "/q", code: 200, says: says{`status.used.count/widgets\.example\.com`: n}}
		}
		for i, request := range []exchange{{do: "POST " + widgets, body: widget("a", `{}`), code: 201},
			{do: "PATCH " + widgets + "/b?fieldManager=m", header: asApply, body: widget("b", `{}`), code: 201}} {
			now := strconv.Itoa(i + 1)
			request.says = says{"spec": `{"of` + now + `":` + now + `}`}
			a.store.interrupt(func() { // before the quota is written
				a.store.interrupt(func() { a.run(withVersions(generation(i + 1))) })
			})
			a.run(request, used(now))
		}
		a.run(exchange{do: "POST " + widgets, body: widget("c", `{}`), code: 403}, used("2"))
	})
}
