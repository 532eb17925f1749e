package openapi

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// knownKinds are the registered kinds of Go types. Listing them takes a third of the time for a document of a few custom resources; they are cached
// until the server is idle.
type knownKinds struct {
	// schemes are the schemes of these kinds. None of them changes once its types are served.
	schemes map[*runtime.Scheme]bool
	// byModel has the kinds by the model name of their Go type, sorted by name.
	byModel map[string][]schema.GroupVersionKind
	// digest returns a hash of the kinds.
	digest func() string
	// worded are template documents, which name these kinds. It is guarded by the handler's building.
	worded map[wordingKey]*wordedV3
}

// kindsOf returns the kinds of the Go types of a catalog.
func (h *Handler) kindsOf(c *resources.Catalog) *knownKinds {
	schemes := schemesOf(c)
	if known := h.goKinds.Load(); known != nil && maps.Equal(known.schemes, schemes) {
		return known
	}
	known := &knownKinds{schemes: schemes, byModel: kindsByModel(schemes), worded: map[wordingKey]*wordedV3{}}
	known.digest = sync.OnceValue(known.sum)
	h.goKinds.Store(known)
	return known
}

func schemesOf(c *resources.Catalog) map[*runtime.Scheme]bool {
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
	return schemes
}

func kindsByModel(schemes map[*runtime.Scheme]bool) map[string][]schema.GroupVersionKind {
	kinds := map[string]map[schema.GroupVersionKind]bool{}
	for scheme := range schemes {
		for gvk := range scheme.AllKnownTypes() {
			// Every known type has a name; only unknown ones cause an error.
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

func (k *knownKinds) sum() string {
	f := fingerprinter{sha256.New()}
	for _, model := range slices.Sorted(maps.Keys(k.byModel)) {
		f.add(model, strconv.Itoa(len(k.byModel[model])))
		for _, kind := range k.byModel[model] {
			f.add(kind.Group, kind.Version, kind.Kind)
		}
	}
	return string(f.Sum(nil))
}
