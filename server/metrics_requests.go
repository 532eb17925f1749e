package server

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// requestLabels are kube-apiserver's of a request, by which the dashboards and alerts of clusters go.
var requestLabels = []string{"verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"}

// component is who answers, in the last of the labels.
const component = "apiserver"

// requestValues are those of requestLabels for a request, with room for one more. Paths below no served resource are not told apart, so that
// an anonymous client cannot make the server keep a series for each path it invents.
func (s *Server) requestValues(r *http.Request, info *genericapirequest.RequestInfo) (values []string, served *resources.Served) {
	values = make([]string, len(requestLabels), len(requestLabels)+1)
	if info.IsResourceRequest {
		served, _ = s.Registry.CatalogOf(r.Context()).Lookup(gvrOf(info))
	}
	values[0], values[1] = metricVerb(r, info, served), dryRunOf(r)
	if served == nil {
		if slices.Contains(healthPaths, strings.TrimPrefix(info.Path, "/")) {
			values[5] = info.Path
		}
		return values, nil
	}
	values[2], values[3], values[4] = info.APIGroup, info.APIVersion, info.Resource
	if _, ok := served.Subresources[info.Subresource]; ok {
		values[5] = info.Subresource
	}
	values[6], values[7] = scopeOf(info), component
	return values, served
}

// withoutDryRun are the values for what is counted by requestLabels without the second.
func withoutDryRun(values []string) []string {
	return slices.Concat(values[:1], values[2:len(requestLabels)])
}

func labelsWithoutDryRun() []string { return withoutDryRun(requestLabels) }

// scopeOf is how much a request is about.
func scopeOf(info *genericapirequest.RequestInfo) string {
	switch {
	case info.Name != "" || info.Verb == "create":
		return "resource"
	case info.Namespace != "":
		return "namespace"
	}
	return "cluster"
}

// metricVerb is the verb by which kube-apiserver counts a request: its method, for types that are built in.
func metricVerb(r *http.Request, info *genericapirequest.RequestInfo, served *resources.Served) string {
	switch info.Subresource {
	case "log", "exec", "portforward", "attach", "proxy":
		if info.IsResourceRequest {
			return "CONNECT"
		}
	}
	switch info.Verb {
	case "create", "update":
		if served == nil || !served.Untyped {
			return r.Method
		}
	case "patch":
		if r.Header.Get("Content-Type") == string(types.ApplyPatchType) {
			return "APPLY"
		}
	case "get", "list", "watch", "delete", "deletecollection", "post", "put", "proxy":
	case "head":
		return http.MethodGet
	default:
		return "other"
	}
	return strings.ToUpper(info.Verb)
}

// dryRunOf is what is asked of a dry run.
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
