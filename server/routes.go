package server

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/server/health"
)

// newEcho returns the router: fixed paths, and one route for the API, whose paths come and go with the registry.
func (s *Server) newEcho() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.writeError
	e.Use(s.chain()...)

	for _, name := range []string{"healthz", "livez", "readyz"} {
		h := echo.WrapHandler(health.New(name, s.Logger, append([]health.Check{health.Ping}, s.healthChecks(name)...)...))
		e.Any("/"+name, h)
		e.Any("/"+name+"/*", h)
	}
	e.Any("/version", fixed("application/json", versionDocument))
	e.Any("/version/", fixed("application/json", versionDocument))
	if s.OpenID != nil {
		e.Any("/.well-known/openid-configuration", fixed("application/json", kept(s.OpenID.GetConfigJSON)))
		e.Any("/openid/v1/jwks", fixed("application/jwk-set+json", kept(s.OpenID.GetKeysetJSON)))
	}
	e.Any("/metrics", echo.WrapHandler(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{})))
	e.Any("/openapi/v2", echo.WrapHandler(s.openapi))
	e.Any("/openapi/v3", echo.WrapHandler(s.openapi))
	e.Any("/openapi/v3/*", echo.WrapHandler(s.openapi))
	e.Any("/debug/pprof", func(c echo.Context) error { return c.Redirect(http.StatusFound, "/debug/pprof/") })
	e.GET("/debug/pprof/*", echo.WrapHandler(http.HandlerFunc(pprof.Index)))
	e.GET("/debug/pprof/profile", echo.WrapHandler(http.HandlerFunc(pprof.Profile)))
	e.GET("/debug/pprof/trace", echo.WrapHandler(http.HandlerFunc(pprof.Trace)))
	e.Any("/", s.serveIndex)
	for _, path := range []string{"/api", "/apis", "/api/*", "/apis/*"} {
		e.Any(path, s.serveAPI)
	}
	return e
}

// healthChecks are the checks of one health path besides ping: a server that is alive may yet not be ready, while its
// store is away or it is shutting down.
func (s *Server) healthChecks(path string) []health.Check {
	if path == "livez" {
		return nil
	}
	checks := s.Checks
	if path == "readyz" {
		checks = append(checks[:len(checks):len(checks)], health.Check{Name: "shutdown", Run: func(*http.Request) error {
			select {
			case <-s.draining:
				return http.ErrServerClosed
			default:
				return nil
			}
		}})
	}
	return checks
}

// serveAPI answers everything below /api and /apis: resources, and the discovery of them.
func (s *Server) serveAPI(c echo.Context) error {
	info := requestInfo(c)
	if !info.IsResourceRequest {
		s.discovery.ServeHTTP(c.Response(), c.Request())
		return nil
	}
	return s.handlers.Serve(c.Response(), c.Request(), info)
}

// serveIndex lists the paths there are.
func (s *Server) serveIndex(c echo.Context) error {
	paths := []string{"/api", "/apis"}
	for _, g := range s.Registry.Catalog().Groups() {
		root := "/api"
		if g.Name != "" {
			root = "/apis/" + g.Name
			paths = append(paths, root)
		}
		for _, v := range g.Versions {
			paths = append(paths, root+"/"+v.Version)
		}
	}
	paths = append(paths, "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version")
	data, err := json.MarshalIndent(map[string][]string{"paths": paths}, "", "  ")
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", data)
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
