package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// healthPaths are served by health.Handler, with a path for each check below.
var healthPaths = []string{"healthz", "livez", "readyz"}

// serveIndex lists the paths, in alphabetical order.
func (s *Server) serveIndex(c echo.Context) error {
	data, err := json.MarshalIndent(map[string][]string{"paths": s.paths()}, "", "  ")
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, "application/json", data)
}

func (s *Server) paths() []string {
	paths := []string{"/api", "/apis", "/apis/", "/metrics", "/metrics/slis", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"}
	if s.hasFlagz() {
		paths = append(paths, "/flagz")
	}
	if s.hasStatusz() {
		paths = append(paths, "/statusz")
	}
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
	if external := s.external(); external != nil {
		for _, v := range external.Versions {
			paths = append(paths, "/apis/"+v.Group, "/apis/"+v.String())
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
	return slices.Compact(paths)
}

// serveStatusz writes the page, which lists the folders of the paths about the server's state.
func (s *Server) serveStatusz(c echo.Context) error {
	var folders []string
	for _, path := range s.paths() {
		folder, _, _ := strings.Cut(path[1:], "/")
		if !slices.Contains([]string{"api", "apis", "openid", "openapi", ".well-known"}, folder) {
			folders = append(folders, "/"+folder)
		}
	}
	return statusz(s.started, slices.Compact(folders), zMedia(s.offer)).serve(c)
}
