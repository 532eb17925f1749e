// Package discovery serves the documents that tell a client which groups, versions and resources exist: /api, /apis,
// /apis/GROUP, /api/v1 and /apis/GROUP/VERSION, in the form of one document per path and in the aggregated form that
// holds everything in two requests (KEP-3352).
//
// Everything is computed from a catalog of the registry when it is first asked for and lives as long as that catalog; what a
// group contributes to the aggregated form, as long as the group is the same.
//
//	discovery.go   paths to documents
//	legacy.go      APIVersions, APIGroupList, APIGroup, APIResourceList
//	external.go    what other servers serve, among what this one does
//	aggregated.go  APIGroupDiscoveryList and its ETag
//	negotiate.go   Accept to an encoding
//	respond.go     documents and Status to bytes
package discovery

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/status"
)

// Options are what discovery says of the server itself.
type Options struct {
	// ServerAddress is the host:port at which the client of a request reaches the server. Nil: none is told.
	ServerAddress func(*http.Request) string
	// External returns what other servers serve, the same while that is; nil: nothing. Nil: there are none.
	External func() *External
	// Local returns the versions of which there is nothing but that they are registered, and those that are registered at other priorities
	// than those of the catalog. The older documents of groups go by both, aggregated discovery by neither. Nil: there are none.
	Local func(context.Context, *resources.Catalog) ([]ExternalVersion, error)
	// CBOR is set where it is among the encodings.
	CBOR bool
}

// Handler answers the discovery paths. Headers that all responses share, Cache-Control among them, are set by the
// request chain before it.
type Handler struct {
	registry *resources.Registry
	options  Options
	// offer is what paths offer, and plain what those without CBOR do.
	offer, plain *offer
	// merged is what there was to discover when something of another server's was asked for last.
	merged atomic.Pointer[shown]
	// registered is merged with what Local returned last.
	registered atomic.Pointer[shown]
	// described counts the groups that were described for aggregated discovery.
	described atomic.Int64
}

// New returns the handler for /api, /apis, /api/VERSION, /apis/GROUP and /apis/GROUP/VERSION, with or without a
// slash at the end.
func New(registry *resources.Registry, options Options) *Handler {
	return &Handler{registry: registry, options: options, offer: newOffer(options.CBOR), plain: newOffer(false)}
}

// ServeHTTP answers one discovery request. A group or version that is not in the catalog is 404.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.shown()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis//"): // a group without a name
		http.NotFound(w, r)
	case parts[0] == "api" && len(parts) == 1:
		h.serveRoot(w, r, c, coreRoot, strictTypes|onlyGet)
	case parts[0] == "apis" && len(parts) == 1:
		h.serveRoot(w, r, c, groupsRoot, 0)
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

// serveRoot answers /api and /apis, the two paths that have an aggregated form.
func (h *Handler) serveRoot(w http.ResponseWriter, r *http.Request, c *shown, root root, rules rules) {
	n, err := h.negotiate(r, rules|allowAggregated)
	if err != nil {
		h.offer.writeError(w, r, err)
		return
	}
	switch {
	case n.aggregated:
		h.serveAggregated(w, r, c, root, n)
	case root == coreRoot:
		// The address differs from client to client, so this document alone is not kept.
		writeObject(w, r, n, h.apiVersions(r, c.catalog))
	default:
		c = h.withLocal(r.Context(), c)
		serveKept(w, r, c, n, "apis", func() runtime.Object { return apiGroupList(c) })
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
		rules = onlyGet // another server answers for it there, which looks at the method
	}
	n, err := h.negotiate(r, rules)
	if err != nil {
		h.offer.writeError(w, r, err)
		return
	}
	serveKept(w, r, c, n, "group "+name, func() runtime.Object {
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
			rules = withoutCBOR // another server answers for it there, which does not look at the method
		}
		n, err := h.negotiate(r, rules)
		if err != nil {
			h.offerOf(rules).writeError(w, r, err)
			return
		}
		serveKept(w, r, c, n, "version "+gv.String(), func() runtime.Object { return apiResourceList(v) })
		return
	}
	if group.Defined() {
		http.NotFound(w, r) // nobody answers for the group as a whole
		return
	}
	h.offer.writeError(w, r, status.NotFound())
}
