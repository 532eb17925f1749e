package server

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/discovery"
	"github.com/rowlock/rowlock/server/handlers"
)

// passOn has a request answered by the server whose APIService stands for the version that is asked for, if there is one.
func (s *Server) passOn(c echo.Context) (answered bool, err error) {
	gv, ok := versionOf(c.Request().URL.Path)
	if s.Aggregator == nil || !ok {
		return false, nil
	}
	b, err := s.Aggregator.Find(c.Request().Context(), gv)
	if b == nil || err != nil {
		return false, err
	}
	r := c.Request()
	ctx := r.Context()
	if longRunning(requestInfo(c)) {
		until, cancel := handlers.Until(s.draining, ctx)
		defer cancel()
		ctx = until
	}
	flowcontrol.RequestDelegated(ctx) // a watch of another server's has no seat here
	// What the other server says is passed on as it is; kube-apiserver says this itself, too.
	b.ServeHTTP(handlers.Interim(c.Response()), r.WithContext(ctx))
	return true, nil
}

// versionOf returns the version of a group that a path is in.
func versionOf(path string) (schema.GroupVersion, bool) {
	below, ok := strings.CutPrefix(path, "/apis/")
	group, below, _ := strings.Cut(below, "/")
	version, _, _ := strings.Cut(below, "/")
	return schema.GroupVersion{Group: group, Version: version}, ok && group != "" && version != ""
}

// local are the versions that APIServices tell of and nobody serves.
func (s *Server) local(ctx context.Context, catalog *resources.Catalog) ([]discovery.ExternalVersion, error) {
	if s.Aggregator == nil {
		return nil, nil
	}
	return s.Aggregator.Local(ctx, catalog)
}

// external is what other servers serve; nil: nothing.
func (s *Server) external() *discovery.External {
	if s.Aggregator == nil {
		return nil
	}
	return s.Aggregator.External()
}
