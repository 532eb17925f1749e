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

// knownKinds are the kinds that Go types are registered as. To list them takes a third of what a document of a few types without a Go type
// does; they are kept until the server has come to rest.
type knownKinds struct {
	// schemes are those that they are registered in. None of them changes once its types are served.
	schemes map[*runtime.Scheme]bool
	// byModel are the kinds by the name of the model of their Go type, in the order of their names.
	byModel map[string][]schema.GroupVersionKind
	// digest sums them up.
	digest func() string
	// worded are documents of nobody's types, which name these kinds. Who holds the handler's building may read it and add to it.
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
