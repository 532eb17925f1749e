package server

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// BenchmarkFlow is what the headers of priority and fairness cost a request.
func BenchmarkFlow(b *testing.B) {
	store := sqlitetest.Open(b)
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	pipeline, quiet := resources.NewPipeline(store, resources.PipelineOptions{}), slog.New(slog.DiscardHandler)
	s, err := New(Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	plane := controlplane.New(controlplane.Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: quiet, Front: s})
	if err := plane.Bootstrap(b.Context()); err != nil {
		b.Fatal(err)
	}
	h := s.withFlow(func(echo.Context) error { return nil })
	r := httptest.NewRequest("GET", "/api/v1/namespaces/default", nil)
	info, err := s.info.NewRequestInfo(r)
	if err != nil {
		b.Fatal(err)
	}
	r = r.WithContext(genericapirequest.WithUser(genericapirequest.WithRequestInfo(r.Context(), info), &user.DefaultInfo{Groups: []string{user.AllAuthenticated}}))
	w := httptest.NewRecorder()
	c := s.echo.NewContext(r, w)
	b.ReportAllocs()
	for b.Loop() {
		if err := h(c); err != nil {
			b.Fatal(err)
		}
	}
	if w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") == "" {
		b.Error("no header")
	}
}
