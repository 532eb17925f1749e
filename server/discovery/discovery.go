// Package discovery serves the discovery documents, with the groups, versions and resources that exist: /api, /apis, /apis/GROUP, /api/v1 and
// /apis/GROUP/VERSION, one document per path, and the aggregated format, which needs only two requests (KEP-3352).
//
// Documents are computed from a catalog of the registry on the first request and cached with that catalog; the entries of aggregated discovery are
// cached with their group.
//
//	discovery.go   paths to documents
//	legacy.go      APIVersions, APIGroupList, APIGroup, APIResourceList
//	external.go    resources of other servers, merged with those of this one
//	aggregated.go  APIGroupDiscoveryList and its ETag
//	negotiate.go   Accept to an encoding
//	respond.go     documents and Status to bytes
package discovery

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// Options are properties of the server that discovery needs.
type Options struct {
	// ServerAddress is the host:port at which the client of a request reaches the server. Nil: the documents have none.
	ServerAddress func(*http.Request) string
	// ServiceRange is the range of the Service kubernetes, at which clients with an address in the range reach the server, too. Nil: there is none.
	ServiceRange *net.IPNet
	// External returns the resources of other servers, the same value until they change; its result may be nil. Nil: there are no other servers.
	External func() *External
	// Local returns the versions that are registered but not in the catalog, those of other servers included, and those registered with other
	// priorities than the catalog's. The older documents of groups include them, and aggregated discovery does not. Nil: there are none.
	Local func(context.Context, *resources.Catalog) ([]ExternalVersion, error)
	// Offer are the encodings, and whether large documents are compressed. Nil: those of kube-apiserver by default.
	Offer *codec.Offer
}

// Handler serves the discovery paths. The request chain sets the headers common to all responses, Cache-Control among them.
type Handler struct {
	registry *resources.Registry
	options  Options
	// offer are the encodings of paths, and plain those without CBOR.
	offer, plain *offer
	// merged is the last merge with resources of other servers.
	merged atomic.Pointer[shown]
	// registered is merged together with the last result of Local.
	registered atomic.Pointer[shown]
	// described counts the entries that were built for aggregated discovery.
	described atomic.Int64
}

// New returns the handler for /api, /apis, /api/VERSION, /apis/GROUP and /apis/GROUP/VERSION, with or without a trailing slash.
func New(registry *resources.Registry, options Options) *Handler {
	if options.Offer == nil {
		options.Offer = codec.NewOffer(false)
	}
	return &Handler{registry: registry, options: options, offer: newOffer(options.Offer), plain: newOffer(codec.NewOffer(false))}
}

// ServeHTTP answers a discovery request. A group or version that is not in the catalog is 404.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.shown()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis//"): // an empty group
		http.NotFound(w, r)
	case parts[0] == "api" && len(parts) == 1:
		h.serveRoot(w, r, c, coreRoot, strictTypes|onlyGet|allowAggregated)
	case r.URL.Path == "/apis/": // kube-apiserver has no aggregated format here, but below /api/
		h.serveRoot(w, r, c, groupsRoot, 0)
	case parts[0] == "apis" && len(parts) == 1:
		h.serveRoot(w, r, c, groupsRoot, allowAggregated)
	case parts[0] == "api" && len(parts) == 2:
		h.serveVersion(w, r, c, schema.GroupVersion{Version: parts[1]})
	case parts[0] == "apis" && len(parts) == 2:
		h.serveGroup(w, r, c, parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		h.serveVersion(w, r, c, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		http.NotFound(w, r)
	}
}

// serveRoot serves /api and /apis, the two paths with an aggregated format.
func (h *Handler) serveRoot(w http.ResponseWriter, r *http.Request, c *shown, root root, rules rules) {
	n, err := h.negotiate(r, rules)
	if err != nil {
		h.offer.writeError(w, r, err)
		return
	}
	switch {
	case n.aggregated:
		h.serveAggregated(w, r, c, root, n)
	case root == coreRoot:
		// The address varies by client, so this document alone is not cached.
		h.writeObject(w, r, n, h.apiVersions(r, c.catalog))
	default:
		c = h.withLocal(r.Context(), c)
		h.serveKept(w, r, c, n, "apis", func() runtime.Object { return apiGroupList(c) })
	}
}

func (h *Handler) serveGroup(w http.ResponseWriter, r *http.Request, c *shown, name string) {
	c = h.withLocal(r.Context(), c)
	group := c.find(name)
	if group == nil || name == "" {
		http.NotFound(w, r)
		return
	}
	rules := rules(0)
	if name == apiregistration.GroupName {
		rules = onlyGet // in kube-apiserver another server has this path, which checks the method
	}
	n, err := h.negotiate(r, rules)
	if err != nil {
		h.offer.writeError(w, r, err)
		return
	}
	h.serveKept(w, r, c, n, "group "+name, func() runtime.Object {
		g := group.legacy()
		g.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}
		return &g
	})
}

func (h *Handler) serveVersion(w http.ResponseWriter, r *http.Request, c *shown, gv schema.GroupVersion) {
	group, ok := c.catalog.Group(gv.Group)
	if !ok {
		http.NotFound(w, r)
		return
	}
	for _, v := range group.Versions {
		if v.GroupVersion != gv {
			continue
		}
		rules := strictTypes | onlyGet
		if len(v.Resources) > 0 && !slices.ContainsFunc(v.Resources, func(s *resources.Served) bool { return !s.Untyped }) {
			rules = withoutCBOR // in kube-apiserver another server has this path, which ignores the method
		}
		n, err := h.negotiate(r, rules)
		if err != nil {
			h.offerOf(rules).writeError(w, r, err)
			return
		}
		h.serveKept(w, r, c, n, "version "+gv.String(), func() runtime.Object { return apiResourceList(v) })
		return
	}
	if group.Defined() {
		http.NotFound(w, r) // in kube-apiserver no router covers such a group as a whole
		return
	}
	h.offer.writeError(w, r, status.NotFound())
}
