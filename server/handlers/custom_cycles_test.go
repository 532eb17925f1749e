package handlers_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/rowlock/rowlock/resources"
)

var definitionCycles = flag.Int("definition-cycles", 12, "how often a definition is created, used and deleted by TestDefinitionsComeAndGo")

// However often a definition is created, used and deleted, nothing remains of it: no type, no catalog with it, no goroutine, and after a soak
// (-definition-cycles 10000) no memory, once the store has forgotten its log, as it does when idle.
func TestDefinitionsComeAndGo(t *testing.T) {
	a := newAPI(t)
	a.work()
	body := widgetDefinition(widgetVersion("v1", widgetSpec, true), widgetVersion("v2", widgetSpec, false))
	var types []weak.Pointer[resources.Type]
	cycle := func() {
		a.run(exchange{do: "POST " + definitions, body: body, code: 201},
			exchange{do: "POST " + widgets, body: widget("a", `{"size":1}`), code: 201},
			exchange{do: "GET " + widgetsAsV2 + "/a", code: 200},
			exchange{do: "PATCH " + widgets + "/a?fieldManager=m&force=true", header: asApply, body: widget("a", `{"size":3}`), code: 200},
			exchange{do: "GET /apis/example.com/v1", code: 200},
			exchange{do: "GET /openapi/v3/apis/example.com/v1", code: 200})
		typ, ok := a.registry.Catalog().Type("widgets.example.com")
		if !ok {
			t.Fatal("there is no type")
		}
		types = append(types, weak.Make(typ))
		a.run(exchange{do: "DELETE " + definitions + "/widgets.example.com", code: 200})
		a.until("customresourcedefinitions.apiextensions.k8s.io", "the definition goes", func() bool {
			code, _ := a.request("GET", definitions+"/widgets.example.com", "", nil)
			return code == 404
		})
	}
	memory := func() uint64 {
		a.definitions.Rest() // until then, compiled schemas stay cached
		a.store.Store.(interface {
			DefragmentHeap(forget bool, moved func(bytes int) bool)
		}).DefragmentHeap(true, func(int) bool { return true })
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const first = 4
	for range first {
		cycle()
	}
	goroutines, heap := runtime.NumGoroutine(), memory()
	for range *definitionCycles {
		cycle()
	}
	left := func() string {
		runtime.GC()
		alive := 0
		for _, typ := range types {
			if typ.Value() != nil {
				alive++
			}
		}
		if now := runtime.NumGoroutine(); alive > 3 || now > goroutines+3 {
			return fmt.Sprintf("of %d types %d are kept; there are %d goroutines, and were %d", len(types), alive, now, goroutines)
		}
		return ""
	}
	a.definitions.Rest()
	for began := time.Now(); left() != "" && time.Since(began) < patience; {
		time.Sleep(10 * time.Millisecond) // wait for goroutines that are ending
	}
	if what := left(); what != "" {
		t.Error(what)
	}
	now := memory()
	t.Logf("the heap had %d KiB and has %d after %d definitions; there are %d goroutines, and were %d", heap>>10, now>>10, *definitionCycles,
		runtime.NumGoroutine(), goroutines)
	const most = 4 << 20 // some 400 bytes left by each definition would add up to this after 10,000
	if now > heap+most {
		t.Errorf("%d KiB stay of %d definitions", (now-heap)>>10, *definitionCycles)
	}
}
