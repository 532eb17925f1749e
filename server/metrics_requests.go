package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/handlers"
)

// requestLabels are kube-apiserver's labels of a request, which dashboards and alerts use.
var requestLabels = []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}

// component is the value of the last label.
const component = "apiserver"

// requestValues returns the values of requestLabels for a request, with room for one more, and whether kube-apiserver counts such a request once it
// is answered: one for a served resource, or for a path in fixedValues. served is nil unless the request is for a served resource.
func (s *Server) requestValues(r *http.Request, info *genericapirequest.RequestInfo) (values []string, served *resources.Served, counts bool) {
	values = make([]string, len(requestLabels), len(requestLabels)+1)
	values[1] = dryRunOf(r)
	if !info.IsResourceRequest {
		values[0] = metricVerb(r, info, "")
		return values, nil, fixedValues(values, strings.TrimPrefix(info.Path, "/"))
	}
	served, _ = s.Registry.CatalogOf(r.Context()).Lookup(gvrOf(info))
	if served == nil {
		values[0] = metricVerb(r, info, scopeOf(info))
		return values, nil, false
	}
	values[2], values[3], values[4] = info.APIGroup, info.APIVersion, info.Resource
	_, counts = served.Subresources[info.Subresource]
	if counts {
		values[5] = info.Subresource
	}
	values[6], values[7] = pathScope(info, served), component
	values[0] = metricVerb(r, info, values[6])
	return values, served, counts || info.Subresource == ""
}

// countedAs is the RequestInfo by which upstream counts a request that it, or a filter, ends before it is answered. It has no name that a client has
// made up: each would be a series, for good, and one that is not UTF-8 a panic.
func (s *Server) countedAs(r *http.Request, info *genericapirequest.RequestInfo) *genericapirequest.RequestInfo {
	_, served, counts := s.requestValues(r, info)
	switch {
	case counts && (served != nil || !strings.HasPrefix(info.Path, "/openapi/v3/")):
		return info
	case served != nil: // but not this subresource
		known := *info
		known.Subresource = ""
		return &known
	}
	return &genericapirequest.RequestInfo{Verb: info.Verb}
}

// fixedValues sets kube-apiserver's values for a path that is no resource's, if it counts such requests. It counts no others, so that an anonymous
// client cannot create a series for each path it invents.
func fixedValues(values []string, path string) bool {
	switch path {
	case "healthz", "livez", "readyz":
		values[5] = "/" + path
	case "openapi/v3":
		values[5] = path
	case "api", "apis":
		values[5], values[7] = path, component
	case "statusz", "flagz":
		values[4], values[7] = path, component
	default:
		if !strings.HasPrefix(path, "openapi/v3/") {
			return false
		}
		values[5] = "openapi/v3/"
	}
	return true
}

// answeredValues adds the values that depend on the response, and tells whether kube-apiserver counts it. It does not count requests that its router
// rejects because of their method or kind of patch, and counts only aggregated discovery.
func (s *Server) answeredValues(values []string, served *resources.Served, c echo.Context) bool {
	answer := c.Response()
	if served != nil {
		plain := !served.Untyped && values[0] == http.MethodPatch && answer.Status == http.StatusUnsupportedMediaType && !handlers.RoutesPatch(s.offer, c.Request())
		return answer.Status != http.StatusMethodNotAllowed && !plain
	}
	media := answer.Header().Get("Content-Type")
	switch {
	case values[5] == "api" || values[5] == "apis":
		return answer.Status == http.StatusNotModified || strings.Contains(media, ";g=apidiscovery.k8s.io;")
	case values[4] != "": // a flagz or statusz page, as an object
		if _, of, found := strings.Cut(media, ";g="); found {
			of, _, _ = strings.Cut(of, ";as=")
			values[2], values[3], _ = strings.Cut(of, ";v=")
		}
	}
	return true
}

// withoutDryRun returns the values for metrics without the second of requestLabels.
func withoutDryRun(values []string) []string {
	return slices.Concat(values[:1], values[2:len(requestLabels)])
}

func labelsWithoutDryRun() []string { return withoutDryRun(requestLabels) }

// scopeOf is the scope of a request: one object, a namespace or the cluster.
func scopeOf(info *genericapirequest.RequestInfo) string {
	switch {
	case info.Name != "" || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// pathScope is scopeOf, except that for built-in types only the path counts: a list restricted to one name is still a list.
func pathScope(info *genericapirequest.RequestInfo, served *resources.Served) string {
	if scope := scopeOf(info); scope != "resource" || served.Untyped || info.Verb == "create" || len(info.Parts) > 1 {
		return scope
	}
	if info.Namespace != "" {
		return "namespace"
	}
	return "cluster"
}

// metricVerb is the verb label of a request: its method, except for reads, applies and streams.
func metricVerb(r *http.Request, info *genericapirequest.RequestInfo, scope string) string {
	switch info.Subresource {
	case "log", "exec", "portforward", "attach", "proxy":
		if info.IsResourceRequest {
			return "CONNECT"
		}
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		switch {
		case info.Verb == "watch", r.Method == http.MethodGet && asksToWatch(r):
			return "WATCH"
		case scope == "resource" || scope == "":
			return http.MethodGet
		}
		return "LIST"
	case http.MethodPatch:
		if r.Header.Get("Content-Type") == string(types.ApplyPatchType) {
			return "APPLY"
		}
		return r.Method
	case http.MethodPost, http.MethodPut, http.MethodDelete:
		return r.Method
	}
	return "other"
}

// asksToWatch tells whether the query asks for a watch. kube-apiserver does not mind whether the path has any.
func asksToWatch(r *http.Request) bool {
	if !strings.Contains(r.URL.RawQuery, "watch") {
		return false
	}
	values := r.URL.Query()["watch"]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// dryRunOf is the value of the dry_run label.
func dryRunOf(r *http.Request) string {
	if !strings.Contains(r.URL.RawQuery, "dryRun") {
		return ""
	}
	asked := r.URL.Query()["dryRun"]
	if slices.ContainsFunc(asked, func(v string) bool { return v != "All" }) {
		return "invalid"
	}
	return strings.Join(asked[:min(len(asked), 1)], "")
}

// hijacked tells whether another protocol has taken over the connection of a request that asked for one, and got no response of this one.
func hijacked(c echo.Context) bool {
	if c.Response().Committed || c.Request().Header.Get("Upgrade") == "" {
		return false
	}
	_, err := c.Response().Writer.Write(nil)
	return errors.Is(err, http.ErrHijacked)
}
