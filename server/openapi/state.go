package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// state has the documents of one catalog, and lives as long. The documents of a group and its versions live with the group, which catalogs share: a
// new group costs its own documents and not those of all.
type state struct {
	catalog *resources.Catalog
	// v2 returns the document of version 2, which needs all types. It is lazy because most catalogs are replaced before a client requests it.
	v2 func() *document
	// v3 has the documents by the path that they describe, without the leading slash.
	v3    map[string]*document
	index atomic.Pointer[indexDocument]
}

// indexDocument is the list of the documents of version 3.
type indexDocument struct {
	data []byte
}

// stateKey and documentKey are the keys of a handler's documents in a catalog's or a group's cache.
type (
	stateKey    struct{ h *Handler }
	documentKey struct {
		h       *Handler
		version string // empty for the group's own document
	}
)

// stateOf returns the documents of a catalog.
func (h *Handler) stateOf(c *resources.Catalog) *state {
	s, _ := c.Memo(stateKey{h}, func() (any, error) { return h.newState(c), nil }) // the function returns no error
	return s.(*state)
}

func (h *Handler) newState(c *resources.Catalog) *state {
	s := &state{catalog: c, v3: map[string]*document{}, v2: sync.OnceValue(func() *document { return h.documentV2(c) })}
	for root, doc := range h.fixedDocuments() {
		s.v3[root[1:]] = doc
	}
	for _, g := range c.Groups() {
		if describesGroup(g) {
			s.v3["apis/"+g.Name] = h.documentOf(g, "", nil, func() (*routes, error) { return groupRoutes(g), nil })
		}
		for _, v := range g.Versions {
			var sum func(*source) (string, error)
			if onlyUntyped(v) {
				sum = func(src *source) (string, error) { return src.sumUntyped(v) }
			}
			s.v3[versionPath(v.GroupVersion)[1:]] = h.documentOf(g, v.Version, sum, func() (*routes, error) { return versionRoutes(v) })
		}
	}
	return s
}

// documentV2 returns the document of version 2. Catalogs share the part for types with a Go type, as they share these types.
func (h *Handler) documentV2(c *resources.Catalog) *document {
	var typed []*resources.Group
	var versions []*resources.Version
	for _, g := range c.Groups() {
		if describesGroup(g) || g.Name == "" {
			typed = append(typed, g)
		}
		for _, v := range g.Versions {
			if onlyUntyped(v) {
				versions = append(versions, v)
			}
		}
	}
	base := h.base.Load()
	if base == nil || !slices.Equal(base.groups, typed) {
		base = &baseV2{typed, &document{format: formatV2, describe: func() ([]*routes, error) { return allRoutes(typed, false) }}} // outlives the catalog
		h.base.Store(base)
	}
	if len(versions) == 0 {
		return base.doc
	}
	return &document{format: formatV2, describe: func() ([]*routes, error) { return allRoutes(c.Groups(), true) },
		wide: &wide{base: base.doc, versions: versions}}
}

// baseV2 is the document of version 2 of groups, without versions that have only custom resources.
type baseV2 struct {
	groups []*resources.Group
	doc    *document
}

// documentOf returns the document of a group or of one of its versions.
func (h *Handler) documentOf(g *resources.Group, version string, sum func(*source) (string, error), describe func() (*routes, error)) *document {
	doc, _ := g.Memo(documentKey{h, version}, func() (any, error) {
		d := newDocumentV3(sum, describe)
		d.of = g
		return d, nil
	}) // the function returns no error
	return doc.(*document)
}

func newDocumentV3(sum func(*source) (string, error), describe func() (*routes, error)) *document {
	return &document{format: formatV3, sum: sum, describe: func() ([]*routes, error) {
		r, err := describe()
		return []*routes{r}, err
	}}
}

// fixedDocuments returns the documents that do not depend on the catalog, by their roots.
func (h *Handler) fixedDocuments() map[string]*document {
	h.fixedOnce.Do(func() {
		h.fixed = map[string]*document{}
		for _, r := range fixedRoutes() {
			h.fixed[r.root] = newDocumentV3(nil, func() (*routes, error) { return r, nil })
		}
	})
	return h.fixed
}

// getIndex makes the index on the first request. Its hashes are computed from the inputs of the documents: no document is built.
func (s *state) getIndex(src *source) (*indexDocument, error) {
	if made := s.index.Load(); made != nil {
		return made, nil
	}
	index, err := writeIndex(slices.Sorted(maps.Keys(s.v3)), func(name string) ([]byte, error) { return s.v3[name].entry(src, name) })
	if err != nil {
		return nil, err
	}
	s.index.CompareAndSwap(nil, &indexDocument{index})
	return s.index.Load(), nil
}

// writeIndex makes an index from the entries of its documents.
func writeIndex(names []string, entry func(name string) ([]byte, error)) ([]byte, error) {
	data := []byte(`{"paths":{`)
	for i, name := range names {
		line, err := entry(name)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		if i > 0 {
			data = append(data, ',')
		}
		data = append(data, line...)
	}
	return append(data, "}}"...), nil
}

// entry is the JSON entry of the index for a document. It is cached with the document.
func (d *document) entry(src *source, name string) ([]byte, error) {
	if made := d.listed.Load(); made != nil {
		return *made, nil
	}
	etag, err := d.etag(src)
	if err != nil {
		return nil, err
	}
	line, err := indexLine(name, hashedURL(name, etag))
	if err == nil {
		d.listed.Store(&line)
	}
	return line, err
}

// indexLine is the entry for a document at an address.
func indexLine(name, address string) ([]byte, error) {
	line, err := json.Marshal(map[string]indexEntry{name: {ServerRelativeURL: address}})
	if err != nil {
		return nil, err
	}
	return line[1 : len(line)-1], nil
}
