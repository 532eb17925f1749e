package openapi

import (
	"cmp"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilopenapi "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/version"
)

// source is what documents are built from. It grows large when it is used, and is made for one request.
type source struct {
	catalog  *resources.Catalog
	building *sync.Mutex
	now      func() time.Time
	cbor     bool // it is among the encodings
	used     bool

	kinds       func() map[string][]schema.GroupVersionKind
	definitions func() map[string]common.OpenAPIDefinition
}

func newSource(c *resources.Catalog, building *sync.Mutex, now func() time.Time, cbor bool) *source {
	return &source{
		catalog: c, building: building, now: now, cbor: cbor,
		kinds: sync.OnceValue(func() map[string][]schema.GroupVersionKind { return kindsByModel(c) }),
		definitions: sync.OnceValue(func() map[string]common.OpenAPIDefinition {
			return definitions(reference("#/components/schemas/"))
		}),
	}
}

// release gives the memory of a build back. Without it the garbage of one kubectl explain, tens of megabytes for the
// one that is kept, would count against the process until the next collection, minutes away in an idle server.
func (s *source) release() {
	if s.used {
		s.kinds, s.definitions = nil, nil
		debug.FreeOSMemory()
	}
}

// definitions are upstream's, less what belongs to features that are off.
var definitions = utilopenapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(openapi.GetOpenAPIDefinitions)

func reference(prefix string) common.ReferenceCallback {
	return func(model string) spec.Ref { return spec.MustCreateRef(prefix + common.EscapeJsonPointer(model)) }
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
	v := version.Info()
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
