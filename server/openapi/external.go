package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// External has the OpenAPI documents of other servers by version, in order of precedence for conflicts. It is immutable.
type External struct{ Versions []ExternalVersion }

// ExternalVersion is a version of a group that another server describes.
type ExternalVersion struct {
	schema.GroupVersion
	// V2 is its part of the document of version 2; nil: there is none.
	V2 *Part
	// V3 has the hashes of its documents of version 3 by their names in the index; empty: the document has none.
	V3 map[string]string
	// Read returns a document of version 3: the server's current one, or else its last known one.
	Read func(ctx context.Context, name string) (*Document, error)
}

// VersionName returns the name in the index of the document of a version, and GroupName that of its group's. A server may have both.
func VersionName(gv schema.GroupVersion) string { return versionPath(gv)[1:] }

// GroupName returns the name in the index of the document of a version's group; see VersionName.
func GroupName(gv schema.GroupVersion) string { return "apis/" + gv.Group }

// Document is a document of version 3 of another server.
type Document struct{ document }

// NewDocument stores a document with its server's ETag, without quotes; empty: it has none.
func NewDocument(data []byte, etag string, now time.Time) (*Document, error) {
	if !json.Valid(data) {
		return nil, fmt.Errorf("a document of OpenAPI is no JSON")
	}
	if etag == "" {
		etag = etagOf(data)
	}
	d := &Document{document{format: formatV3}}
	return d, d.keep(asJSON, data, etag, now)
}

// ETag returns the ETag of the document, without quotes.
func (d *Document) ETag() string { return d.forms[asJSON].Load().etag }

// Part is the part of a document of version 2 about a version of a group.
type Part struct{ packed []byte }

// NewPart extracts the part from the document.
func NewPart(document []byte, gv schema.GroupVersion) (*Part, error) {
	var all spec.Swagger
	if err := all.UnmarshalJSON(document); err != nil {
		return nil, err
	}
	data, err := aggregator.FilterSpecByPathsWithoutSideEffects(&all, []string{versionPath(gv) + "/"}).MarshalJSON()
	if err != nil {
		return nil, err
	}
	packed, err := pack(data)
	return &Part{packed}, err
}

// Equal tells whether two parts are equal.
func (p *Part) Equal(other *Part) bool { return bytes.Equal(p.packed, other.packed) }

func (p *Part) read() (*spec.Swagger, error) {
	data, err := unpack(p.packed)
	if err != nil {
		return nil, err
	}
	s := &spec.Swagger{}
	return s, s.UnmarshalJSON(data)
}

// V3 converts the part to a document of version 3, as far as possible, for a server without one.
func (p *Part) V3(now time.Time) (*Document, error) {
	s, err := p.read()
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(openapiconv.ConvertV2ToV3(s))
	if err != nil {
		return nil, err
	}
	return NewDocument(data, "", now)
}

// joined has the documents of this server and others together.
type joined struct {
	own      *state
	external *External
	v2       func() *document
	index    atomic.Pointer[indexDocument]
}

// joinedOf returns the joined documents for a state; nil: there are no other servers. The joined documents of another state are dropped.
func (h *Handler) joinedOf(s *state) *joined {
	var external *External
	if h.external != nil {
		external = h.external()
	}
	if external == nil {
		h.joined.Store(nil)
		return nil
	}
	if known := h.joined.Load(); known != nil && known.own == s && known.external == external {
		return known
	}
	made := &joined{own: s, external: external, v2: s.v2}
	if parts := external.parts(); len(parts) > 0 {
		made.v2 = sync.OnceValue(func() *document {
			doc := &document{format: formatV2, join: func(src *source) ([]byte, error) { return s.joinV2(src, parts) }}
			if own := s.v2().wide; own != nil {
				doc.wide = &wide{base: own.base, others: parts, versions: own.versions}
			}
			return doc
		})
	}
	h.joined.Store(made)
	return made
}

func (x *External) parts() (parts []*Part) {
	for _, v := range x.Versions {
		if v.V2 != nil {
			parts = append(parts, v.V2)
		}
	}
	return parts
}

// describes tells whether a version's server provides a document: that of the version in any case, and that of its group if this server has none.
func (v *ExternalVersion) describes(name string, own *state) bool {
	_, ok := v.V3[name]
	return ok && (name == VersionName(v.GroupVersion) || name == GroupName(v.GroupVersion) && own.v3[name] == nil)
}

// find returns the version whose server provides a document; nil: none.
func (j *joined) find(name string) *ExternalVersion {
	if j == nil {
		return nil
	}
	i := slices.IndexFunc(j.external.Versions, func(v ExternalVersion) bool { return v.describes(name, j.own) })
	if i < 0 {
		return nil
	}
	return &j.external.Versions[i]
}

// getIndex is state.getIndex with the documents of other servers.
func (j *joined) getIndex(src *source) (*indexDocument, error) {
	if made := j.index.Load(); made != nil {
		return made, nil
	}
	names := map[string]bool{}
	for name := range j.own.v3 {
		names[name] = true
	}
	for _, v := range j.external.Versions {
		for name := range v.V3 {
			if v.describes(name, j.own) {
				names[name] = true
			}
		}
	}
	index, err := writeIndex(slices.Sorted(maps.Keys(names)), func(name string) ([]byte, error) {
		if v := j.find(name); v != nil {
			return indexLine(name, addressOf(name, v.V3[name]))
		}
		return j.own.v3[name].entry(src, name)
	})
	if err != nil {
		return nil, err
	}
	j.index.CompareAndSwap(nil, &indexDocument{index})
	return j.index.Load(), nil
}

// addressOf is the URL of a document, with its hash, if it has one.
func addressOf(name, hash string) string {
	if hash == "" {
		return (&url.URL{Path: pathV3 + "/" + name}).String()
	}
	return hashedURL(name, hash)
}
