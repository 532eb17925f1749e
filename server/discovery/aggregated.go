package discovery

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// root is one of the two documents of aggregated discovery.
type root string

const (
	coreRoot   root = "api"
	groupsRoot root = "apis"
)

// aggregatedKind is the only kind a discovery document is transformed to. v2beta1 is no longer served.
var aggregatedKind = apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

// aggregated is a document with its ETag, quotes included. The ETag is one for all encodings of the document, which
// Vary keeps apart.
type aggregated struct {
	doc  *apidiscoveryv2.APIGroupDiscoveryList
	etag string
}

type aggregatedKey struct{ root root }

func (h *Handler) serveAggregated(w http.ResponseWriter, r *http.Request, c *resources.Catalog, root root, n negotiated) {
	v, err := c.Memo(aggregatedKey{root}, func() (any, error) { return newAggregated(c, root) })
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	a := v.(*aggregated)
	w.Header().Set("ETag", a.etag)
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, err := kept(c, n, "aggregated "+string(root), func() runtime.Object { return a.doc })
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	k := aggregatedKind
	contentType := fmt.Sprintf("%s;g=%s;v=%s;as=%s", n.info.MediaType, k.Group, k.Version, k.Kind)
	writeBody(w, http.StatusOK, contentType, body)
}

func newAggregated(c *resources.Catalog, root root) (*aggregated, error) {
	doc := &apidiscoveryv2.APIGroupDiscoveryList{}
	for _, g := range c.Groups() {
		if (g.Name == "") == (root == coreRoot) && len(g.Versions) > 0 {
			doc.Items = append(doc.Items, groupDiscovery(g))
		}
	}
	// The digest is of the document without its kind.
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	doc.APIVersion, doc.Kind = aggregatedKind.ToAPIVersionAndKind()
	return &aggregated{doc: doc, etag: strconv.Quote(fmt.Sprintf("%X", sha512.Sum512(data)))}, nil
}

func groupDiscovery(g *resources.Group) apidiscoveryv2.APIGroupDiscovery {
	doc := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	for _, v := range g.Versions {
		doc.Versions = append(doc.Versions, versionDiscovery(v))
	}
	return doc
}

func versionDiscovery(v *resources.Version) apidiscoveryv2.APIVersionDiscovery {
	doc := apidiscoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, s := range v.Resources {
		legacy := apiResource(s)
		r := apidiscoveryv2.APIResourceDiscovery{
			Resource:         legacy.Name,
			ResponseKind:     responseKind(legacy),
			Scope:            apidiscoveryv2.ScopeCluster,
			SingularResource: legacy.SingularName,
			Verbs:            legacy.Verbs,
			ShortNames:       legacy.ShortNames,
			Categories:       legacy.Categories,
		}
		if legacy.Namespaced {
			r.Scope = apidiscoveryv2.ScopeNamespace
		}
		for _, sub := range subresources(s) {
			legacy := apiSubresource(s, sub)
			r.Subresources = append(r.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource:  sub.Name,
				ResponseKind: responseKind(legacy),
				Verbs:        legacy.Verbs,
			})
		}
		doc.Resources = append(doc.Resources, r)
	}
	return doc
}

// responseKind leaves group and version empty where they are those of the document, as the older form does.
func responseKind(r metav1.APIResource) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}
