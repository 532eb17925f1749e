package server

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// newFlowServer returns a server with the suggested configuration of priority and fairness.
func newFlowServer(t testing.TB) *Server {
	t.Helper()
	store := sqlitetest.Open(t)
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	pipeline, quiet := resources.NewPipeline(store, resources.PipelineOptions{}), slog.New(slog.DiscardHandler)
	s, err := New(Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	plane := controlplane.New(controlplane.Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: quiet, Front: s})
	if err := plane.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkFlow measures priority and fairness for a request, by priority level.
func BenchmarkFlow(b *testing.B) {
	s := newFlowServer(b)
	h := s.withFlow(func(echo.Context) error { return nil })
	administrator := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	account := &user.DefaultInfo{Name: "system:serviceaccount:default:a", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", user.AllAuthenticated}}
	for _, c := range []struct {
		name, method, path string
		who                user.Info
	}{
		{"administrator/get", "GET", "/api/v1/namespaces/default", administrator},
		{"account/get", "GET", "/api/v1/namespaces/default", account},
		{"account/list", "GET", "/api/v1/namespaces/default/pods?limit=500", account},
		{"account/create", "POST", "/api/v1/namespaces/default/pods", account},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := httptest.NewRequest(c.method, c.path, nil)
			info, err := s.info.NewRequestInfo(r)
			if err != nil {
				b.Fatal(err)
			}
			deadline, cancel := context.WithTimeout(r.Context(), time.Hour)
			defer cancel()
			r = r.WithContext(genericapirequest.WithUser(genericapirequest.WithRequestInfo(deadline, info), c.who))
			w := httptest.NewRecorder()
			ec := s.echo.NewContext(r, w)
			b.ReportAllocs()
			for b.Loop() {
				if err := h(ec); err != nil {
					b.Fatal(err)
				}
			}
			if w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") == "" {
				b.Error("no header")
			}
		})
	}
}
