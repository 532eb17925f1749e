package openapi

import (
	"cmp"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// source is what documents are made of. It grows large when one is built, and is made for one request.
type source struct {
	*Handler
	catalog *resources.Catalog
	used    bool // to build

	kinds         func() map[string][]schema.GroupVersionKind
	kindsDigest   func() string
	definitionsV3 func() (map[string]common.OpenAPIDefinition, error)
}

func newSource(h *Handler, c *resources.Catalog) *source {
	s := &source{Handler: h, catalog: c}
	s.kinds = sync.OnceValue(func() map[string][]schema.GroupVersionKind { return kindsByModel(c) })
	s.kindsDigest = sync.OnceValue(s.digestKinds)
	s.definitionsV3 = sync.OnceValues(func() (map[string]common.OpenAPIDefinition, error) { return s.definitions(definitionsV3, nil) })
	return s
}

// release gives the memory of a build back. Without it the garbage of one kubectl explain, tens of megabytes for the
// one that is kept, would count against the process until the next collection, minutes away in an idle server.
func (s *source) release() {
	if s.used {
		s.kinds, s.definitionsV3 = nil, nil
		debug.FreeOSMemory()
	}
}

// kindsByModel lists the kinds that a Go type is registered as, by the name of its model, in the order of their names.
func kindsByModel(c *resources.Catalog) map[string][]schema.GroupVersionKind {
	schemes := map[*runtime.Scheme]bool{}
	for _, g := range c.Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				if scheme, ok := s.Scheme.(*runtime.Scheme); ok {
					schemes[scheme] = true
				}
			}
		}
	}
	kinds := map[string]map[schema.GroupVersionKind]bool{}
	for scheme := range schemes {
		for gvk := range scheme.AllKnownTypes() {
			// Every known type has a name; the error is that of an unknown one.
			model, _ := scheme.ToOpenAPIDefinitionName(gvk)
			if kinds[model] == nil {
				kinds[model] = map[schema.GroupVersionKind]bool{}
			}
			kinds[model][gvk] = true
		}
	}
	sorted := make(map[string][]schema.GroupVersionKind, len(kinds))
	for model, set := range kinds {
		sorted[model] = slices.SortedFunc(maps.Keys(set), func(a, b schema.GroupVersionKind) int {
			return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version), strings.Compare(a.Kind, b.Kind))
		})
	}
	return sorted
}

// name returns the name of a definition and its vendor extension: the kinds that keep lets pass. A nil keep lets all.
func (s *source) name(model string, keep func(schema.GroupVersionKind) bool) (string, spec.Extensions) {
	kinds := s.kinds()[model]
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

// info is the head of every document. It names the minor release alone, as the API does not change within one.
func info() *spec.Info {
	v := upstream.Version()
	return &spec.Info{InfoProps: spec.InfoProps{Title: "Kubernetes", Version: v.Major + "." + v.Minor}}
}

// unauthorized is the response that every operation may have.
const unauthorized = "Unauthorized"

// tokenScheme is how requests authenticate, as far as these documents tell.
func tokenScheme() *spec.SecurityScheme {
	return &spec.SecurityScheme{SecuritySchemeProps: spec.SecuritySchemeProps{
		Type: "apiKey", Description: "Bearer Token authentication", Name: "authorization", In: "header",
	}}
}

const tokenSchemeName = "BearerToken"
