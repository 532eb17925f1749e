package openapi

import (
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources"
)

// isStream tells whether a subresource is a connection and not an object: its kind is then that of the options.
func isStream(sub *resources.Subresource) bool { return strings.HasSuffix(sub.Kind.Kind, "Options") }

// streamMethods are the methods of a connection by verb, as discovery lists the verbs. A proxy has two more methods without a verb, and accepts any
// path below its own.
var streamMethods = map[string]string{
	"create": http.MethodPost, "delete": http.MethodDelete, "get": http.MethodGet, "patch": http.MethodPatch,
	"update": http.MethodPut,
}

func (e *endpoint) addStream() {
	methods := make([]string, 0, len(streamMethods)+2)
	for _, verb := range e.verbs {
		methods = append(methods, streamMethods[verb])
	}
	proxy := e.has("update")
	if proxy {
		methods = append(methods, http.MethodHead, http.MethodOptions)
	}
	for _, method := range methods {
		r := route{
			method: method, path: e.item, action: "connect",
			description: "connect " + method + " requests to " + e.of(e.noun), produces: anyType, result: "string",
		}
		verb := "connect" + title(strings.ToLower(method))
		options := queryParameters(e.object)
		e.add(verb, "", r, e.named, options)
		if proxy {
			r.path += "/{path}"
			e.add(verb, "WithPath", r, e.named, options, []common.Parameter{pathParameter("path", "path to the resource")})
		}
	}
}

// isLog tells whether this is the one subresource that returns text.
func isLog(s *resources.Served, sub *resources.Subresource) bool {
	return s.Group == "" && s.Resource == "pods" && sub.Name == "log"
}

func (e *endpoint) addLog() error {
	options, err := e.parent.Scheme.New(corev1.SchemeGroupVersion.WithKind("PodLogOptions"))
	if err != nil {
		return err
	}
	e.add("read", "", route{
		method: http.MethodGet, path: e.item, action: "get", description: "read " + e.of("the specified "+e.noun),
		produces: slices.Concat([]string{"text/plain"}, mediaTypes), result: "string", codes: []int{http.StatusOK},
	}, e.named, []common.Parameter{prettyParameter}, queryParameters(options))
	return nil
}
