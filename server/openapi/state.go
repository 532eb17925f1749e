package openapi

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// state are the documents of one catalog. A catalog that follows another shares the documents of all groups and
// versions that it has taken over unchanged, so that a new group costs its own document and not everybody's.
type state struct {
	catalog *resources.Catalog
	v2      *document
	// v3 are the documents by the path of what they describe, without the slash before it.
	v3 map[string]*document
	// origin is the group or version that a document was made for.
	origin map[any]*document
	index  atomic.Pointer[indexDocument]
}

// indexDocument is the list of the documents of version 3.
type indexDocument struct {
	data     []byte
	modified time.Time
}

// newState prepares the documents of a catalog; previous may be nil.
func newState(c *resources.Catalog, previous *state) *state {
	s := &state{catalog: c, v3: map[string]*document{}, origin: map[any]*document{}}
	s.v2 = &document{format: formatV2, describe: func() ([]*routes, error) { return allRoutes(c) }}
	add := func(origin any, root string, describe func() (*routes, error)) {
		doc := previous.documentOf(origin)
		if doc == nil {
			doc = &document{format: formatV3, describe: func() ([]*routes, error) {
				r, err := describe()
				return []*routes{r}, err
			}}
		}
		s.origin[origin] = doc
		s.v3[root[1:]] = doc
	}
	for _, r := range fixedRoutes() {
		add(r.root, r.root, func() (*routes, error) { return r, nil })
	}
	for _, g := range c.Groups() {
		if g.Name != "" {
			add(g, "/apis/"+g.Name, func() (*routes, error) { return groupRoutes(g), nil })
		}
		for _, v := range g.Versions {
			add(v, versionPath(v.GroupVersion), func() (*routes, error) { return versionRoutes(v) })
		}
	}
	return s
}

// documentOf returns the document that was made for a group or version.
func (s *state) documentOf(origin any) *document {
	if s == nil {
		return nil
	}
	return s.origin[origin]
}

// getIndex makes the index when it is first asked for, and every document for the hash of it.
func (s *state) getIndex(src *source) (*indexDocument, error) {
	if made := s.index.Load(); made != nil {
		return made, nil
	}
	idx := index{Paths: map[string]indexEntry{}}
	for name, doc := range s.v3 {
		etag, err := doc.etag(src)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", name, err)
		}
		idx.Paths[name] = indexEntry{ServerRelativeURL: hashedURL(name, etag)}
	}
	data, err := json.Marshal(idx)
	if err != nil {
		return nil, err
	}
	s.index.CompareAndSwap(nil, &indexDocument{data: data, modified: src.now()})
	return s.index.Load(), nil
}
