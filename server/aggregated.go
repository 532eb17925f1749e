package server

import (
	"context"
	"strings"

	"github.com/labstack/echo/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/discovery"
	"github.com/rowlock/rowlock/server/handlers"
)

// passOn forwards a request to the server behind the APIService of the requested version, if there is one.
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
		values, _, _ := s.requestValues(r, requestInfo(c))
		own := s.metrics.stream(values, requestInfo(c))
		own.Dec() // which it is not, as in kube-apiserver
		defer own.Inc()
	}
	requestctx.Forward(ctx)
	flowcontrol.RequestDelegated(ctx) // a watch at another server occupies no seat here
	// Interim (1xx) responses are forwarded, too: the reverse proxy, which is the one that kube-aggregator uses, passes them on.
	return true, b.Forward(handlers.Interim(c.Response()), r.WithContext(ctx))
}

// versionOf returns the group version of a path.
func versionOf(path string) (schema.GroupVersion, bool) {
	below, ok := strings.CutPrefix(path, "/apis/")
	group, below, _ := strings.Cut(below, "/")
	version, _, _ := strings.Cut(below, "/")
	return schema.GroupVersion{Group: group, Version: version}, ok && group != "" && version != ""
}

// local returns the versions of APIServices that the catalog lacks or has at other priorities; see Aggregator.Local.
func (s *Server) local(ctx context.Context, catalog *resources.Catalog) ([]discovery.ExternalVersion, error) {
	if s.Aggregator == nil {
		return nil, nil
	}
	return s.Aggregator.Local(ctx, catalog)
}

// external returns the versions that other servers serve; nil without an Aggregator.
func (s *Server) external() *discovery.External {
	if s.Aggregator == nil {
		return nil
	}
	return s.Aggregator.External()
}
