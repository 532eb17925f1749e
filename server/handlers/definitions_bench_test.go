package handlers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/openapi"
)

// BenchmarkDefinitions measures requests with published definitions: with new schemas, with known ones, and applied again, with and without the
// cache of repetitions. cpu-µs/op is the processor time of the process per definition.
func BenchmarkDefinitions(b *testing.B) {
	published, err := harness.Published(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	bodies := func(n int) (paths []string, all [][]byte) {
		for _, crd := range published {
			crd = crd.DeepCopy()
			crd.Spec.Group = fmt.Sprintf("c%d.%s", n, crd.Spec.Group)
			crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
			text, err := json.Marshal(crd)
			if err != nil {
				b.Fatal(err)
			}
			paths, all = append(paths, definitions+"/"+crd.Name+"?fieldManager=bench&force=true"), append(all, text)
		}
		return paths, all
	}
	var a *api
	var spent time.Duration
	apply := func(b *testing.B, n, code int) {
		paths, all := bodies(n)
		before := processorTime(b)
		b.StartTimer()
		for i, body := range all {
			r := httptest.NewRequest("PATCH", paths[i], bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/apply-patch+yaml")
			w := httptest.NewRecorder()
			if a.ServeHTTP(w, r); w.Code != code {
				b.Fatal(w.Code, w.Body)
			}
		}
		b.StopTimer()
		spent += processorTime(b) - before
	}
	run := func(name string, prepare, measured func(b *testing.B, i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.StopTimer()
			spent = 0
			for i := range b.N {
				prepare(b, i)
				measured(b, i)
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N*len(published)), "cpu-µs/definition")
		})
	}
	run("first", func(*testing.B, int) { a = newAPI(b) }, func(b *testing.B, i int) { apply(b, 0, http.StatusCreated) })
	n := 0
	run("seen", func(*testing.B, int) { n++ }, func(b *testing.B, i int) { apply(b, n, http.StatusCreated) })
	run("again", func(*testing.B, int) {}, func(b *testing.B, i int) { apply(b, 0, http.StatusOK) })
	defer fastpath.Repeats.Turn(false)() // as after a start or a change
	run("unremembered", func(*testing.B, int) {}, func(b *testing.B, i int) { apply(b, 0, http.StatusOK) })
}

// BenchmarkOpenAPIOfDefinitions measures the largest document of version 3 after a change of its definition, with an empty cache.
func BenchmarkOpenAPIOfDefinitions(b *testing.B) {
	a := newAPI(b)
	definition := publishedDefinition(b, "applicationsets.argoproj.io")
	a.run(exchange{do: "POST " + definitions, body: string(definition), code: 201})
	h, spent := openapi.New(a.registry, false), time.Duration(0)
	for i := range b.N + 1 {
		a.run(exchange{do: "PATCH " + definitions + "/applicationsets.argoproj.io", header: asMergePatch, code: 200,
			body: fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i)})
		a.definitions.Rest()
		runtime.GC() // the garbage of the change does not count
		before, w := processorTime(b), httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", "/openapi/v3/apis/argoproj.io/v1alpha1", nil)); w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
		if i > 0 { // the first one loads the shared definitions
			spent += processorTime(b) - before
		}
	}
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
}

// BenchmarkFirstResource measures the first object of a large definition, with an empty cache. The second definition has rules.
func BenchmarkFirstResource(b *testing.B) {
	for _, first := range []struct{ definition, version, body string }{
		{"applicationsets.argoproj.io", "argoproj.io/v1alpha1", `"kind":"ApplicationSet","spec":{"generators":[],"template":{"metadata":{},"spec":{"project":"default","destination":{}}}}`},
		{"prometheusagents.monitoring.coreos.com", "monitoring.coreos.com/v1alpha1", `"kind":"PrometheusAgent","spec":{}`},
	} {
		name, _, _ := strings.Cut(first.definition, ".")
		b.Run(name, func(b *testing.B) {
			a := newAPI(b)
			a.run(exchange{do: "POST " + definitions, body: string(publishedDefinition(b, first.definition)), code: 201})
			spent := time.Duration(0)
			for i := range b.N {
				a.definitions.Rest()
				body := fmt.Sprintf(`{"apiVersion":"%s","metadata":{"name":"a%d"},%s}`, first.version, i, first.body)
				before := processorTime(b)
				w := httptest.NewRecorder()
				if a.ServeHTTP(w, httptest.NewRequest("POST", "/apis/"+first.version+"/namespaces/test/"+name, strings.NewReader(body))); w.Code != http.StatusCreated {
					b.Fatal(w.Code, w.Body)
				}
				spent += processorTime(b) - before
				// Field managers are cached with the type: a change makes new ones.
				a.run(exchange{do: "PATCH " + definitions + "/" + first.definition, header: asMergePatch, code: 200,
					body: fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i)})
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
