package discovery

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources"
)

// The documents of the core group and the list of groups are older than the versioning of discovery itself: their apiVersion is empty for the core
// group, and "v1" for all others.

// apiVersions is /api.
func (h *Handler) apiVersions(r *http.Request, c *resources.Catalog) *metav1.APIVersions {
	doc := &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{}}
	if core, ok := c.Group(""); ok {
		for _, v := range core.Versions {
			doc.Versions = append(doc.Versions, v.Version)
		}
	}
	address := ""
	if h.options.ServerAddress != nil {
		address = h.options.ServerAddress(r)
	}
	doc.ServerAddressByClientCIDRs = []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: address}}
	if n := h.options.ServiceRange; n != nil && n.Contains(utilnet.GetClientIP(r)) {
		if ip, err := netutils.GetIndexedIP(n, 1); err == nil {
			doc.ServerAddressByClientCIDRs = append(doc.ServerAddressByClientCIDRs,
				metav1.ServerAddressByClientCIDR{ClientCIDR: n.String(), ServerAddress: net.JoinHostPort(ip.String(), "443")})
		}
	}
	return doc
}

// apiGroupList is /apis.
func apiGroupList(c *shown) *metav1.APIGroupList {
	doc := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{}}
	for _, g := range byFirstVersion(c.groups) {
		if g.name != "" && len(g.versions) > 0 {
			doc.Groups = append(doc.Groups, g.legacy())
		}
	}
	return doc
}

// byFirstVersion sorts groups as kube-apiserver's list does, which differs from aggregated discovery: groups of equal priority, such as those of
// all custom resources, are ordered by the name of their first APIService, which begins with its version.
func byFirstVersion(groups []*shownGroup) []*shownGroup {
	first := make(map[*shownGroup]string, len(groups))
	for _, g := range groups {
		for _, v := range g.versions {
			if name := v.name + "." + g.name; v.ofGroup == g.priority && (first[g] == "" || name < first[g]) {
				first[g] = name
			}
		}
	}
	sorted := slices.Clone(groups)
	slices.SortStableFunc(sorted, func(a, b *shownGroup) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(first[a], first[b]))
	})
	return sorted
}

// apiResourceList is /api/v1 and /apis/GROUP/VERSION.
func apiResourceList(v *resources.Version) *metav1.APIResourceList {
	doc := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList"},
		GroupVersion: v.GroupVersion.String(),
		APIResources: []metav1.APIResource{},
	}
	if v.Group != "" {
		doc.APIVersion = "v1"
	}
	for _, s := range v.Resources {
		doc.APIResources = append(doc.APIResources, apiResource(s))
		for _, sub := range subresources(s) {
			doc.APIResources = append(doc.APIResources, apiSubresource(s, sub))
		}
	}
	return doc
}

func apiResource(s *resources.Served) metav1.APIResource {
	r := metav1.APIResource{
		Name:         s.Resource,
		SingularName: s.SingularName,
		Namespaced:   s.Namespaced,
		Kind:         s.GroupVersionKind.Kind,
		Verbs:        s.Verbs(),
		ShortNames:   s.ShortNames,
		Categories:   s.Categories,
	}
	if s.OfferedVerbs != nil {
		r.Verbs = s.OfferedVerbs
	}
	// kube-apiserver asks the gate only for built-in types, and has no hash of a storage version of a definition that is not served.
	hashed := utilfeature.DefaultFeatureGate.Enabled(features.StorageVersionHash)
	if s.Untyped {
		hashed = slices.Contains(s.Versions, s.StorageVersion)
	}
	if s.Stored() && hashed {
		r.StorageVersionHash = storageVersionHash(s.HashedKind())
	}
	return r
}

func apiSubresource(s *resources.Served, sub *resources.Subresource) metav1.APIResource {
	r := metav1.APIResource{
		Name:       s.Resource + "/" + sub.Name,
		Namespaced: s.Namespaced,
		Kind:       s.GroupVersionKind.Kind,
		Verbs:      slices.Sorted(slices.Values(sub.Verbs)),
	}
	if !sub.Kind.Empty() {
		r.Kind = sub.Kind.Kind
		if sub.Kind.GroupVersion() != s.GroupVersion() {
			r.Group, r.Version = sub.Kind.Group, sub.Kind.Version
		}
	}
	return r
}

// subresources returns the subresources of a resource by name; those of a custom resource in reverse.
func subresources(s *resources.Served) []*resources.Subresource {
	subs := make([]*resources.Subresource, 0, len(s.Subresources))
	for _, sub := range s.Subresources {
		subs = append(subs, sub)
	}
	slices.SortFunc(subs, func(a, b *resources.Subresource) int { return strings.Compare(a.Name, b.Name) })
	if s.Untyped {
		slices.Reverse(subs)
	}
	return subs
}

// storageVersionHash tells clients when the storage version of a resource changes (KEP-2339): it is the first eight bytes of a digest of the stored
// kind.
func storageVersionHash(gvk schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(gvk.Group + "/" + gvk.Version + "/" + gvk.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
