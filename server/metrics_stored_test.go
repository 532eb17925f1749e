package server_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// readCounted is a store that counts reads.
type readCounted struct {
	resources.View
	reads atomic.Int64
}

func (s *readCounted) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	s.reads.Add(1)
	return s.View.Snapshot(ctx, resource, at)
}

// A scrape takes the number of objects from memory: it reads no type, because a read may query the database and decrypt.
func TestScrapeReadsNothing(t *testing.T) {
	var store *readCounted
	s, _ := servertest.New(t, func(c *server.Config) {
		store = &readCounted{View: c.Store}
		c.Store, c.Metrics, c.MetricLimits.Hidden = store, prometheus.NewRegistry(), true
	})
	r := httptest.NewRequest("POST", "/api/v1/namespaces", strings.NewReader(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}`))
	r.Header.Set("Authorization", "master")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != 201 {
		t.Fatal(w.Body)
	}
	servertest.Get(s.Handler(), "/metrics", "master") // the first request's own reads do not count
	before := store.reads.Load()
	got := servertest.Get(s.Handler(), "/metrics", "master").Body.String()
	if n := store.reads.Load() - before; n != 0 {
		t.Errorf("types were read %d times", n)
	}
	if !strings.Contains(got, `apiserver_resource_objects{group="",resource="namespaces"} 1`) {
		t.Error("the namespace is not counted")
	}
	if !strings.Contains(got, `apiserver_storage_objects{resource="namespaces"} 1`) {
		t.Error("the namespace is not counted by the metric that is hidden by default")
	}
}
