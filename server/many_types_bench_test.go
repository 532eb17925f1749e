package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// BenchmarkOneOfManyTypes adds a custom resource where there are few and where there are a thousand, each in its own group, and updates one
// document. ARCHITECTURE.md has the figures ("What one type of many costs").
func BenchmarkOneOfManyTypes(b *testing.B) {
	for _, many := range []int{10, 1000} {
		b.Run(fmt.Sprint("types=", many), func(b *testing.B) {
			for _, c := range []struct{ name, path, accept string }{
				{"registry", "", ""},
				{"discovery", "/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
				{"index-v3", "/openapi/v3", ""},
				{"document-v3", "/openapi/v3/apis/added.example.org/v1", ""},
				{"document-v2", "/openapi/v2", ""},
			} {
				b.Run(c.name, func(b *testing.B) { oneOfMany(b, many, nil, asked(c.path, c.accept)) })
			}
			b.Run("follower", func(b *testing.B) {
				f := &waiter{turned: make(chan *resources.Catalog, 1)}
				oneOfMany(b, many, f, func(b *testing.B, _ *server.Server, c *resources.Catalog) {
					for c != <-f.turned {
					}
				})
			})
		})
	}
}

// asked requests a document about the types.
func asked(path, accept string) func(*testing.B, *server.Server, *resources.Catalog) {
	return func(b *testing.B, s *server.Server, _ *resources.Catalog) {
		if path == "" {
			return
		}
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "master")
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != 200 {
			b.Fatal(w.Code, w.Body)
		}
	}
}

// oneOfMany measures the work after a change of one type.
func oneOfMany(b *testing.B, many int, follower follow.Handler, then func(*testing.B, *server.Server, *resources.Catalog)) {
	s, c := servertest.New(b, nil)
	types := make([]*resources.Type, b.N+1)
	for i := range types {
		types[i] = benchType(b, "added.example.org", fmt.Sprint(i))
	}
	c.Registry.Edit(func(e *resources.Edit) {
		for i := range many {
			t := benchType(b, fmt.Sprintf("g%d.example.org", i), "")
			e.SetType(t.StorageVersion, 1000, 100, t)
		}
	})
	if follower != nil {
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			follow.Run(ctx, follow.Source{Store: c.Store, Logger: servertest.Quiet, Name: "a benchmark", Shortest: time.Second, Longest: time.Second,
				Registry: c.Registry, Types: func(*resources.Type) bool { return true }}, follower)
		}()
		defer func() { stop(); <-done }()
	}
	add := func(t *resources.Type) {
		c.Registry.Edit(func(e *resources.Edit) {
			e.RemoveGroup(t.Group)
			e.SetType(t.StorageVersion, 1000, 100, t)
		})
		then(b, s, c.Registry.Catalog())
	}
	add(types[b.N]) // builds everything once
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		add(types[i])
	}
	b.StopTimer()
}

func benchType(b *testing.B, group, note string) *resources.Type {
	v := untypedtest.Versions()[0]
	v.Note = note
	t, err := v.Type()
	if err != nil {
		b.Fatal(err)
	}
	t.Group, t.StorageVersion.Group, t.Hub.Group = group, group, group
	return t
}

// waiter is a follow.Handler that signals each followed catalog.
type waiter struct{ turned chan *resources.Catalog }

func (w *waiter) Begin() {}

func (w *waiter) Observe([]*resources.Event) {}

func (w *waiter) Turn(ctx context.Context, t follow.Turn) (time.Duration, error) {
	if t.Quiet {
		select {
		case w.turned <- t.Catalog:
		case <-ctx.Done():
		}
	}
	return 0, nil
}
