package server

import (
	"github.com/labstack/echo/v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// newEcho returns the router: fixed paths, and one route for the API, whose paths change with the registry.
func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.writeError
	e.Use(s.chain())

	for _, name := range healthPaths {
		h := newHealth(name, s.Logger, s.healthChecks)
		serve := func(c echo.Context) error { return h.Serve(c.Response(), c.Request()) }
		e.Any("/"+name, serve)
		e.Any("/"+name+"/*", serve)
	}
	version := fixed(codec.JSON, versionDocument, codec.JSON)
	e.Any("/version", version)
	e.Any("/version/", version)
	e.Any("/version/*", func(echo.Context) error { return status.NotFound() })
	if s.OpenID != nil {
		s.addOpenID(e)
	}
	if s.hasFlagz() {
		e.Any("/flagz", flagz(s.Flags, zMedia(s.offer)).serve)
	}
	if s.hasStatusz() {
		e.Any("/statusz", s.serveStatusz)
	}
	if s.IssuedTokens != nil {
		e.Any(TokensPath, s.serveTokens)
		e.Any(TokensPath+"/:id", s.serveToken)
	}
	s.addMetrics(e)
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/*"} {
		e.Any(path, echo.WrapHandler(s.openapi), s.withLatestTypes)
	}
	s.addDebug(e)
	e.Any("/", s.serveIndex)
	e.Any("/index.html", s.serveIndex)
	for _, path := range []string{"/api", "/apis", "/api/*", "/apis/*"} {
		e.Any(path, s.serveAPI)
	}
	return e
}

// serveAPI serves everything below /api and /apis: resources and discovery.
func (s *Server) serveAPI(c echo.Context) error {
	info := requestInfo(c)
	if answered, err := s.passOn(c); answered || err != nil {
		return err
	}
	if !info.IsResourceRequest {
		return s.withLatestTypes(echo.WrapHandler(s.discovery))(c)
	}
	return s.handlers.Serve(c.Response(), c.Request(), info)
}

func resourceOf(c echo.Context) schema.GroupResource {
	if info := requestInfo(c); info != nil {
		return schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	}
	return schema.GroupResource{}
}

func nameOf(c echo.Context) string {
	if info := requestInfo(c); info != nil {
		return info.Name
	}
	return ""
}

func verbOf(c echo.Context) string {
	if info := requestInfo(c); info != nil {
		return info.Verb
	}
	return ""
}

func gvrOf(info *genericapirequest.RequestInfo) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
}
