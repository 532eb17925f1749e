package handlers_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/h2"
)

// A watch keeps no catalog alive that was replaced: neither the one by which its request was answered, nor that of its last event.
func TestWatchKeepsNoCatalog(t *testing.T) {
	for name, outlives := range map[string]bool{"by its handler": false, "after its handler": true} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			s := httptest.NewUnstartedServer(a)
			if s.EnableHTTP2 = outlives; outlives {
				s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": h2.Serve(s.Config)}
			}
			s.StartTLS()
			t.Cleanup(s.Close)
			defined := 0
			define := func() { // replaces the catalog
				defined++
				body := strings.ReplaceAll(widgetDefinition(widgetVersion("v1", widgetSpec, true)), "example.com", fmt.Sprintf("n%d.example.com", defined))
				a.run(exchange{do: "POST " + definitions, body: body, code: 201}, exchange{do: "GET " + widgets, code: 200}) // the read takes it in
			}
			a.run(exchange{do: "POST " + definitions, body: widgetDefinition(widgetVersion("v1", widgetSpec, true)), code: 201},
				exchange{do: "GET " + widgets, code: 200, keep: keptAs("now")})
			watch := "?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=" + a.kept["now"]
			opened := weak.Make(a.registry.Catalog())
			ofWidgets, ofConfigMaps := watchOf(t, s.Client(), s.URL+widgets+watch, nil), watchOf(t, s.Client(), s.URL+configMaps+watch, nil)
			define()
			collected(t, "by which its request was answered", opened)
			for n := range 2 {
				last := weak.Make(a.registry.Catalog())
				a.run(exchange{do: "POST " + widgets, body: widget(fmt.Sprint("w", n), `{"size":1}`), code: 201},
					exchange{do: "POST " + configMaps, body: fmt.Sprintf(`{"metadata":{"name":"c%d"}}`, n), code: 201})
				for _, next := range []func() (gjson.Result, bool){ofWidgets, ofConfigMaps} {
					if e, ok := next(); !ok || !strings.HasSuffix(e.Get("object.metadata.name").Str, fmt.Sprint(n)) {
						t.Fatalf("the event is %s (%t)", e.Raw, ok)
					}
				}
				define()
				collected(t, "of its last event", last)
			}
		})
	}
}

// collected waits until a catalog is garbage.
func collected(t *testing.T, which string, c weak.Pointer[resources.Catalog]) {
	t.Helper()
	for began := time.Now(); c.Value() != nil; runtime.Gosched() {
		if time.Since(began) > patience {
			t.Fatal("the catalog is kept " + which)
		}
		runtime.GC()
	}
}
