package handlers_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkWrite measures a write, admission included, without a network.
func BenchmarkWrite(b *testing.B) {
	const pods = "/api/v1/namespaces/test/pods"
	const spec = `"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"a","value":"b"}],"ports":[{"containerPort":80}]}]}}`
	send := func(a *api, method, path, body string, code int) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if method == "PATCH" {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
		w := httptest.NewRecorder()
		if a.ServeHTTP(w, r); w.Code != code {
			b.Fatal(w.Body)
		}
	}
	b.Run("create", func(b *testing.B) {
		a := newAPI(b)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			send(a, "POST", pods, fmt.Sprintf(`{"metadata":{"name":"p%d"},%s`, n, spec), 201)
		}
	})
	b.Run("patch", func(b *testing.B) {
		a := newAPI(b)
		send(a, "POST", pods, `{"metadata":{"name":"p"},`+spec, 201)
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			n++
			send(a, "PATCH", pods+"/p", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, n), 200)
		}
	})
	b.Run("get", func(b *testing.B) {
		a := newAPI(b)
		b.ReportAllocs()
		for b.Loop() {
			send(a, "GET", "/api/v1/namespaces/test", "", 200)
		}
	})
}
