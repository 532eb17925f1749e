package handlers_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/e2e/harness"
)

// measured are the custom resources of the benchmarks, with definitions published by their projects.
var measured = map[string]string{"certificate": "certificates.cert-manager.io", "application": "applications.argoproj.io",
	"httproute": "httproutes.gateway.networking.k8s.io"}

// measuredStatus are the measured status changes, and their paths: Applications have no status subresource.
var measuredStatus = map[string]struct{ path, body string }{
	"certificate": {"/status", `{"status":{"revision":%d}}`},
	"application": {"", `{"status":{"sync":{"status":"Synced","revision":"%d"}}}`},
	"httproute": {"/status", `{"status":{"parents":[{"parentRef":{"name":"public"},"controllerName":"example.com/c","conditions":[{"type":"Accepted","status":"True",
		"reason":"Accepted","message":"%d","lastTransitionTime":"2026-05-04T10:20:30Z"}]}]}}`},
}

// publishedDefinition returns the definition of a name.
func publishedDefinition(b *testing.B, name string) []byte {
	b.Helper()
	all, err := harness.Published(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, crd := range all {
		if crd.Name == name {
			text, err := json.Marshal(crd)
			if err != nil {
				b.Fatal(err)
			}
			return text
		}
	}
	b.Fatal("nobody publishes ", name)
	return nil
}

// BenchmarkCustomResource measures requests for custom resources, with 16 concurrent clients and without a network. cpu-µs/op is the processor time
// of the whole process, including the garbage collector and the clients.
func BenchmarkCustomResource(b *testing.B) {
	for _, kind := range slices.Sorted(maps.Keys(measured)) {
		a := newAPI(b)
		definition := publishedDefinition(b, measured[kind])
		a.run(exchange{do: "POST " + definitions, body: string(definition), code: 201})
		object, err := os.ReadFile("testdata/custom/" + kind + ".json")
		if err != nil {
			b.Fatal(err)
		}
		path := fmt.Sprintf("/apis/%s/namespaces/test/%s", gjson.GetBytes(object, "apiVersion"), gjson.GetBytes(definition, "spec.names.plural"))
		named := func(name string) []byte { return bytes.Replace(object, []byte("NAME"), []byte(name), 1) }
		var n atomic.Int64
		b.Run(kind+"/create", func(b *testing.B) {
			measure(b, a, http.StatusCreated, "", func() (string, string, []byte) { return "POST", path, named(fmt.Sprint("c", n.Add(1))) })
		})
		a.run(exchange{do: "POST " + path, body: string(named("o")), code: 201})
		b.Run(kind+"/patch", func(b *testing.B) {
			measure(b, a, http.StatusOK, "application/merge-patch+json", func() (string, string, []byte) {
				i := n.Add(1)
				return "PATCH", fmt.Sprintf("%s/c%d", path, 1+i%16), fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, i)
			})
		})
		b.Run(kind+"/status", func(b *testing.B) {
			measure(b, a, http.StatusOK, "application/merge-patch+json", func() (string, string, []byte) {
				i := n.Add(1)
				return "PATCH", fmt.Sprintf("%s/c%d%s", path, 1+i%16, measuredStatus[kind].path), fmt.Appendf(nil, measuredStatus[kind].body, i)
			})
		})
		a.request("PATCH", path+"/o?fieldManager=m&force=true", string(named("o")), says{"Content-Type": "application/apply-patch+yaml"})
		b.Run(kind+"/apply", func(b *testing.B) {
			measure(b, a, http.StatusOK, "application/apply-patch+yaml", func() (string, string, []byte) {
				return "PATCH", path + "/o?fieldManager=m&force=true", named("o")
			})
		})
		b.Run(kind+"/get", func(b *testing.B) {
			measure(b, a, http.StatusOK, "", func() (string, string, []byte) { return "GET", path + "/o", nil })
		})
	}
}

// measure sends requests from 16 clients. media is the type of their bodies; empty: JSON.
func measure(b *testing.B, a *api, code int, media string, next func() (method, path string, body []byte)) {
	b.Helper()
	b.SetParallelism(8)
	b.ReportAllocs()
	before := processorTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			method, path, body := next()
			r := httptest.NewRequest(method, path, bytes.NewReader(body))
			r.Header.Set("Content-Type", cmp.Or(media, "application/json"))
			w := httptest.NewRecorder()
			if a.ServeHTTP(w, r); w.Code != code {
				b.Error(w.Body)
				return
			}
		}
	})
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// processorTime is the processor time of the process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
