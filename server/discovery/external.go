package discovery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/rowlock/rowlock/resources"
)

// External has the resources of other servers. It is immutable.
type External struct{ Versions []ExternalVersion }

// ExternalVersion is a version of a group that another server serves; this server may serve it, too.
type ExternalVersion struct {
	schema.GroupVersion
	// GroupPriority and VersionPriority are as resources.Group.Priority and resources.Version.Priority. The highest of a group's priorities counts.
	GroupPriority, VersionPriority int
	Discovery                      apidiscoveryv2.APIVersionDiscovery
}

// shown has the groups to discover, from a catalog and from other servers, and their documents.
type shown struct {
	catalog  *resources.Catalog
	external *External
	local    []ExternalVersion
	groups   []*shownGroup // in the order of discovery

	mu   sync.Mutex
	made map[any]any
}

// memo caches documents as long as their source lives.
type memo interface {
	Memo(key any, build func() (any, error)) (any, error)
}

// shownGroup is a group of this server alone (group is set), or one with versions of other servers.
type shownGroup struct {
	name     string
	priority int
	group    *resources.Group
	versions []shownVersion // the preferred one first
}

type shownVersion struct {
	name     string
	priority int
	ofGroup  int // the priority that it requests for its group
	own      *resources.Version
	external *ExternalVersion
}

// Memo is resources.Catalog.Memo, or its equivalent for merged documents.
func (s *shown) Memo(key any, build func() (any, error)) (any, error) {
	if s.external == nil && s.local == nil {
		return s.catalog.Memo(key, build)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.made[key]; ok {
		return v, nil
	}
	v, err := build()
	if err == nil {
		s.made[key] = v
	}
	return v, err
}

type shownKey struct{}

// shown returns the groups to discover now. Documents of an earlier merge are dropped.
func (h *Handler) shown() *shown {
	catalog := h.registry.Catalog()
	var external *External
	if h.options.External != nil {
		external = h.options.External()
	}
	if external == nil {
		h.merged.Store(nil)
		v, _ := catalog.Memo(shownKey{}, func() (any, error) { return newShown(catalog, nil, nil), nil }) // the function returns no error
		return v.(*shown)
	}
	if known := h.merged.Load(); known != nil && known.catalog == catalog && known.external == external {
		return known
	}
	made := newShown(catalog, external, nil)
	h.merged.Store(made)
	return made
}

// withLocal returns c merged with the result of Local. If that fails it returns c, so that the served versions are still listed.
func (h *Handler) withLocal(ctx context.Context, c *shown) *shown {
	if h.options.Local == nil {
		return c
	}
	local, err := h.options.Local(ctx, c.catalog)
	if len(local) == 0 || err != nil {
		h.registered.Store(nil)
		return c
	}
	if known := h.registered.Load(); known != nil && known.catalog == c.catalog && known.external == c.external && equality.Semantic.DeepEqual(known.local, local) {
		return known
	}
	made := newShown(c.catalog, c.external, local)
	h.registered.Store(made)
	return made
}

func newShown(c *resources.Catalog, external *External, local []ExternalVersion) *shown {
	s := &shown{catalog: c, external: external, local: local, made: map[any]any{}}
	byName := map[string]*shownGroup{}
	add := func(name string) *shownGroup {
		g := byName[name]
		if g == nil {
			g = &shownGroup{name: name, priority: math.MinInt}
			byName[name] = g
			s.groups = append(s.groups, g)
		}
		return g
	}
	for _, own := range c.Groups() {
		g := add(own.Name)
		g.group = own
		for _, v := range own.Versions {
			g.versions = append(g.versions, shownVersion{name: v.Version, priority: v.Priority, ofGroup: own.Priority, own: v})
		}
	}
	others := local
	if external != nil {
		others = slices.Concat(external.Versions, local)
	}
	for i := range others {
		v := &others[i]
		g := add(v.Group)
		g.group = nil // the group is not this server's alone
		g.versions = slices.DeleteFunc(g.versions, func(own shownVersion) bool { return own.name == v.Version })
		g.versions = append(g.versions, shownVersion{name: v.Version, priority: v.VersionPriority, ofGroup: v.GroupPriority, external: v})
	}
	for _, g := range s.groups {
		for _, v := range g.versions {
			g.priority = max(g.priority, v.ofGroup) // after replacing versions
		}
	}
	if len(others) == 0 {
		return s
	}
	for _, g := range s.groups {
		slices.SortStableFunc(g.versions, func(a, b shownVersion) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), version.CompareKubeAwareVersionStrings(b.name, a.name))
		})
	}
	slices.SortStableFunc(s.groups, func(a, b *shownGroup) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.name, b.name))
	})
	return s
}

// find returns a group by name; nil: there is none.
func (s *shown) find(name string) *shownGroup {
	i := slices.IndexFunc(s.groups, func(g *shownGroup) bool { return g.name == name })
	if i < 0 {
		return nil
	}
	return s.groups[i]
}

// legacy is the group in the older format.
func (g *shownGroup) legacy() metav1.APIGroup {
	doc := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		gv := schema.GroupVersion{Group: g.name, Version: v.name}
		doc.Versions = append(doc.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v.name})
	}
	if len(doc.Versions) > 0 {
		doc.PreferredVersion = doc.Versions[0]
	}
	return doc
}

// describe returns the entry of a group in aggregated discovery. It is cached for a group of this server alone.
func (h *Handler) describe(g *shownGroup) (*described, error) {
	if g.group != nil {
		made, err := g.group.Memo(describedKey{}, func() (any, error) { return h.newDescribed(g) })
		if err != nil {
			return nil, err
		}
		return made.(*described), nil
	}
	return h.newDescribed(g)
}

func (h *Handler) newDescribed(g *shownGroup) (*described, error) {
	h.described.Add(1)
	doc := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, v := range g.versions {
		if v.own != nil {
			doc.Versions = append(doc.Versions, versionDiscovery(v.own))
		} else {
			doc.Versions = append(doc.Versions, v.external.Discovery)
		}
	}
	data, err := json.Marshal(doc)
	return &described{doc, data, sha256.Sum256(data)}, err
}
