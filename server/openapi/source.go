package openapi

import (
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// source has the inputs of documents. It becomes large when one is built, and is made for one request.
type source struct {
	*Handler
	catalog *resources.Catalog
	used    bool // something was built

	known         func() *knownKinds
	definitionsV3 func() (map[string]common.OpenAPIDefinition, error)
}

func newSource(h *Handler, c *resources.Catalog) *source {
	s := &source{Handler: h, catalog: c}
	s.known = sync.OnceValue(func() *knownKinds { return h.kindsOf(c) })
	s.definitionsV3 = sync.OnceValues(func() (map[string]common.OpenAPIDefinition, error) { return s.definitions(definitionsV3, nil) })
	return s
}

// release returns the memory of a build to the system. Otherwise the garbage of one kubectl explain, tens of megabytes for one that is kept, would
// count against the process until the next collection, minutes later in an idle server.
func (s *source) release() {
	if s.used {
		s.known, s.definitionsV3 = nil, nil
		debug.FreeOSMemory()
	}
}

// name returns the name of a definition and its vendor extension, the kinds accepted by keep. A nil keep accepts all.
func (s *source) name(model string, keep func(schema.GroupVersionKind) bool) (string, spec.Extensions) {
	kinds := s.known().byModel[model]
	if len(kinds) == 0 {
		return model, nil
	}
	list := make([]any, 0, len(kinds))
	for _, k := range kinds {
		if keep == nil || keep(k) {
			list = append(list, map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind})
		}
	}
	return model, spec.Extensions{extensionKind: list}
}

// info is the head of every document. It has only the minor release, because the API does not change within one.
func info() *spec.Info {
	v := upstream.Version()
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: v.Major + "." + v.Minor}}
}

// unauthorized is the description of a response that every operation may have.
const unauthorized = "Unauthorized"

// tokenScheme describes authentication, as far as these documents do.
func tokenScheme() *spec.SecurityScheme {
	return &spec.SecurityScheme{SecuritySchemeProps: spec.SecuritySchemeProps{
		Type: "apiKey", Description: "Bearer Token authentication", Name: "authorization", In: "header",
	}}
}

const tokenSchemeName = "BearerToken"
