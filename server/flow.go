package server

import (
	"context"
	"slices"

	"github.com/labstack/echo/v4"
	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// withFlow says which FlowSchema and priority level a request was counted under, as kube-apiserver does (KEP-1040). There
// is one queue for all here; the names are those under which kube-apiserver's own configuration has the request: the
// administrators' is exempt, probes are, the rest is the default.
func (s *Server) withFlow(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if info := requestInfo(c); longRunning(info) && info.Verb != "watch" {
			return next(c) // counted nowhere
		}
		who, _ := genericapirequest.UserFrom(c.Request().Context())
		schema, level := "global-default", "global-default"
		switch {
		case slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup):
			schema, level = "exempt", "exempt"
		case isProbe(c.Request().URL.Path):
			schema, level = "probes", "exempt"
		}
		h := c.Response().Header()
		if uid := s.uidOf(c.Request().Context(), "flowschemas.flowcontrol.apiserver.k8s.io", schema); uid != "" {
			h["X-Kubernetes-Pf-Flowschema-Uid"] = []string{uid}
		}
		if uid := s.uidOf(c.Request().Context(), "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io", level); uid != "" {
			h["X-Kubernetes-Pf-Prioritylevel-Uid"] = []string{uid}
		}
		return next(c)
	}
}

func isProbe(path string) bool { return path == "/healthz" || path == "/livez" || path == "/readyz" }

// uidOf returns the UID of an object in no namespace as the cache has it, empty when there is none.
func (s *Server) uidOf(ctx context.Context, resource, name string) string {
	o, err := s.Store.Get(ctx, resources.Key{Resource: resource, Name: name}, resources.At{Match: resources.Any})
	if err != nil {
		return ""
	}
	return gjson.GetBytes(o.Data, "metadata.uid").Str
}
