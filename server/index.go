package server

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
)

// healthPaths are answered by health.Handler, each with its checks below it.
var healthPaths = []string{"healthz", "livez", "readyz"}

// serveIndex lists the paths there are, in the order of the alphabet.
func (s *Server) serveIndex(c echo.Context) error {
	paths := []string{"/api", "/apis", "/apis/", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"}
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
	for _, name := range healthPaths {
		paths = append(paths, "/"+name)
		for _, check := range s.healthChecks(name) {
			paths = append(paths, "/"+name+"/"+check.Name)
		}
	}
	if s.OpenID != nil {
		paths = append(paths, openIDPaths...)
	}
	slices.Sort(paths)
	data, err := json.MarshalIndent(map[string][]string{"paths": paths}, "", "  ")
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", data)
}
