package discovery

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"strconv"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// root is the path of one of the two documents of aggregated discovery.
type root string

const (
	coreRoot   root = "api"
	groupsRoot root = "apis"
)

// aggregatedKind is the only kind that discovery documents are transformed to. v2beta1 is no longer served.
var aggregatedKind = apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

// aggregated is a document with its ETag, quotes included. All encodings of the document have the same ETag; Vary distinguishes them.
type aggregated struct {
	doc   *apidiscoveryv2.APIGroupDiscoveryList
	items [][]byte // of doc, as JSON
	etag  string
}

type aggregatedKey struct{ root root }

func (h *Handler) serveAggregated(w http.ResponseWriter, r *http.Request, c *shown, root root, n negotiated) {
	v, err := c.Memo(aggregatedKey{root}, func() (any, error) { return h.newAggregated(c, root) })
	if err != nil {
		h.offer.writeError(w, r, err)
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
	body, err := a.encoded(c, n, root)
	if err != nil {
		h.offer.writeError(w, r, err)
		return
	}
	k := aggregatedKind
	contentType := fmt.Sprintf("%s;g=%s;v=%s;as=%s", n.info.MediaType, k.Group, k.Version, k.Kind)
	record(r, func(n negotiated) ([]byte, error) { return a.encoded(c, n, root) })
	h.write(w, r, contentType, body)
}

// newAggregated joins the entries of the groups, which are cached as long as their group does not change.
func (h *Handler) newAggregated(c *shown, root root) (*aggregated, error) {
	upstream.DiscoveriesMade.Inc()
	a := &aggregated{doc: &apidiscoveryv2.APIGroupDiscoveryList{}, items: make([][]byte, 0, len(c.groups))}
	digest := sha512.New()
	for _, g := range c.groups {
		if (g.name == "") != (root == coreRoot) || len(g.versions) == 0 {
			continue
		}
		one, err := h.describe(g)
		if err != nil {
			return nil, err
		}
		if a.doc.Items == nil { // without groups it is null
			a.doc.Items = make([]apidiscoveryv2.APIGroupDiscovery, 0, len(c.groups))
		}
		a.doc.Items, a.items = append(a.doc.Items, one.doc), append(a.items, one.json)
		_, _ = digest.Write(one.sum[:]) // memory: no error
	}
	// Hash the hashes of the groups, so that a change of one of many groups costs no more than its own.
	a.etag = strconv.Quote(fmt.Sprintf("%X", digest.Sum(nil)))
	a.doc.APIVersion, a.doc.Kind = aggregatedKind.ToAPIVersionAndKind()
	return a, nil
}

// write writes the JSON of the document after its beginning.
func (a *aggregated) write(w io.Writer, begins string) {
	text := func(s string) { _, _ = io.WriteString(w, s) } // memory: no error
	text(begins + `"metadata":{},"items":`)
	if len(a.items) == 0 {
		text("null}")
		return
	}
	between := "["
	for _, item := range a.items {
		text(between)
		_, _ = w.Write(item)
		between = ","
	}
	text("]}")
}

// size is the approximate length of the JSON.
func (a *aggregated) size() int {
	n := 1 << 10
	for _, item := range a.items {
		n += len(item) + 1
	}
	return n
}

// encoded returns the encoded document.
func (a *aggregated) encoded(c memo, n negotiated, root root) ([]byte, error) {
	name := "aggregated " + string(root)
	if n.pretty || n.info.MediaType != runtime.ContentTypeJSON {
		return kept(c, n, name, func() runtime.Object { return a.doc })
	}
	body, err := c.Memo(documentKey{name: name, mediaType: n.info.MediaType}, func() (any, error) {
		var buf bytes.Buffer
		buf.Grow(a.size())
		a.write(&buf, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,`, a.doc.Kind, a.doc.APIVersion))
		buf.WriteByte('\n')
		return buf.Bytes(), nil
	})
	return body.([]byte), err
}

// described is the entry of a group in aggregated discovery.
type described struct {
	doc  apidiscoveryv2.APIGroupDiscovery
	json []byte
	sum  [sha256.Size]byte // of the JSON
}

type describedKey struct{}

func versionDiscovery(v *resources.Version) apidiscoveryv2.APIVersionDiscovery {
	doc := apidiscoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, s := range v.Resources {
		legacy := apiResource(s)
		r := apidiscoveryv2.APIResourceDiscovery{
			Resource:         legacy.Name,
			ResponseKind:     responseKind(s, legacy),
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
				ResponseKind: responseKind(s, legacy),
				Verbs:        legacy.Verbs,
			})
		}
		doc.Resources = append(doc.Resources, r)
	}
	return doc
}

// responseKind leaves group and version empty if they are those of the document, as the older format does, but not for custom resources.
func responseKind(s *resources.Served, r metav1.APIResource) *metav1.GroupVersionKind {
	if s.Untyped && r.Version == "" {
		r.Group, r.Version = s.GroupVersionKind.Group, s.GroupVersionKind.Version
	}
	return &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}
