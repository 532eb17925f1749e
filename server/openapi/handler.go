package openapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/munnerz/goautoneg"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources"
)

const (
	pathV2 = "/openapi/v2"
	pathV3 = "/openapi/v3"

	contentTypeJSON = "application/json"
	contentTypeV2   = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	contentTypeV3   = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// Handler answers /openapi/v2, /openapi/v3 and what is below the latter.
type Handler struct {
	registry *resources.Registry
	now      func() time.Time
	cbor     bool // is among the encodings
	// definitions are what documents are built with, all of them if anew is set, otherwise those that are not prepared.
	definitions Definitions
	anew        bool

	// external returns what other servers describe, the same while that is; nil: nothing. Nil: there are none.
	external func() *External
	joined   atomic.Pointer[joined]

	base atomic.Pointer[baseV2]
	made atomic.Pointer[weak.Pointer[document]] // the wide one that was made last, which lives no longer than its catalog

	goKinds atomic.Pointer[knownKinds]                          // those that were found out last
	few     atomic.Pointer[map[string]common.OpenAPIDefinition] // see fewDefinitions

	fixedOnce sync.Once
	fixed     map[string]*document // see fixedDocuments
	building  sync.Mutex           // held while a document is made
	recent    recent
	built     atomic.Int64
	summed    atomic.Int64 // documents whose ETag was found out for the index
}

// New returns a handler that describes what the registry holds at the time of each request, with CBOR among the encodings
// or without. It builds nothing yet.
// Headers that all responses share, Cache-Control among them, are set by the request chain before it.
func New(registry *resources.Registry, cbor bool) *Handler {
	return &Handler{registry: registry, now: time.Now, cbor: cbor, definitions: embedded}
}

// Join has what other servers describe among what is served. external returns the same while that is; nil: nothing. It comes before
// the first request.
func (h *Handler) Join(external func() *External) { h.external = external }

// Built counts the documents that had to be built, because none was prepared for what is served.
func (h *Handler) Built() int64 { return h.built.Load() }

// ServeHTTP answers any method as it does GET, as kube-apiserver does.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.stateOf(h.registry.Catalog())
	src := newSource(h, s.catalog)
	defer src.release()
	j := h.joinedOf(s)
	switch name, below := strings.CutPrefix(r.URL.Path, pathV3+"/"); {
	case below:
		h.serveV3(w, r, s, j, src, name)
	case r.URL.Path == pathV3:
		h.serveIndex(w, r, s, j, src)
	case r.URL.Path == pathV2:
		h.serveV2(w, r, s, j, src)
	default:
		http.NotFound(w, r)
	}
}

func (h *Handler) serveV2(w http.ResponseWriter, r *http.Request, s *state, j *joined, src *source) {
	w.Header()["Vary"] = []string{"Accept-Encoding", "Accept"}
	e, ok := accepted(r, "v2")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	get := s.v2
	if j != nil {
		get = j.v2
	}
	doc := get()
	f, err := doc.known(r, e), error(nil)
	if f == nil {
		f, err = doc.get(src, e)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", contentType(e, contentTypeV2))
	w.Header().Set("ETag", strconv.Quote(f.etag))
	f.serveCompressed(w, r)
}

// Rest compresses what is not yet, and drops the document of version 2 of types without a Go type, which is large and made again when it is
// asked for: it reports whether there was one. Who has it goes on to be told that it is the same. It is for when the server has come to rest.
func (h *Handler) Rest() bool {
	h.goKinds.Store(nil) // not worth to be told: all garbage would be collected
	h.few.Store(nil)     // nor these
	h.building.Lock()
	defer h.building.Unlock()
	_ = h.recent.compress(h.registry.Catalog(), 0) // a form that cannot be stays as it is, and so do those after it
	made := h.made.Swap(nil)
	if made == nil {
		return false
	}
	doc := made.Value()
	if doc == nil {
		return false
	}
	for i := range doc.forms {
		if f := doc.forms[i].Load(); f != nil {
			doc.forms[i].Store(&form{etag: f.etag, modified: f.modified})
		}
	}
	return true
}

func (h *Handler) serveIndex(w http.ResponseWriter, r *http.Request, s *state, j *joined, src *source) {
	getIndex := s.getIndex
	if j != nil {
		getIndex = j.getIndex
	}
	idx, err := getIndex(src)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// As with kube-apiserver it has no ETag, its type is guessed (text/plain), and it was changed right now. It is sent whatever the
	// client has: within the second that a date can tell, kubectl has asked for it and stored the definition that changes it.
	if r.Header.Get("If-Modified-Since") != "" {
		r = r.Clone(r.Context())
		r.Header.Del("If-Modified-Since")
	}
	serveContent(w, r, h.now(), bytes.NewReader(idx.data))
}

// serveV3 answers one document. Under its hash it never changes and may be kept for ever; under the hash of another
// state the client is sent to the present one.
func (h *Handler) serveV3(w http.ResponseWriter, r *http.Request, s *state, j *joined, src *source, name string) {
	doc := s.v3[name]
	if other := j.find(name); other != nil {
		theirs, err := other.Read(r.Context(), name)
		if err != nil {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable) // as kube-apiserver, which passes the request on
			return
		}
		doc = &theirs.document
	}
	if doc == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if header := r.Header.Get("Accept"); header != "" && len(goautoneg.ParseAccept(header)) == 0 {
		return // who accepts what is no media type is sent nothing, with 200, as by kube-apiserver
	}
	w.Header().Set("Vary", "Accept")
	e, ok := accepted(r, "v3")
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	f, err := doc.get(src, e)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType(e, contentTypeV3))
	w.Header().Set("ETag", strconv.Quote(f.etag))
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != f.etag {
			http.Redirect(w, r, hashedURL(name, f.etag), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", h.now().AddDate(1, 0, 0).UTC().Format(time.RFC1123))
	}
	f.serve(w, r)
}

func contentType(e encoding, protobuf string) string {
	if e == asProtobuf {
		return protobuf
	}
	return contentTypeJSON
}

// accepted picks the encoding that a request likes best. The protobuf types have an older name, with an @ in it.
func accepted(r *http.Request, version string) (encoding, bool) {
	header := r.Header.Get("Accept")
	if header == "" {
		return asJSON, true
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		if clause.Type != "application" && clause.Type != "*" {
			continue
		}
		switch clause.SubType {
		case "json", "*":
			return asJSON, true
		case "com.github.proto-openapi.spec." + version + ".v1.0+protobuf",
			"com.github.proto-openapi.spec." + version + "@v1.0+protobuf":
			return asProtobuf, true
		}
	}
	return 0, false
}
