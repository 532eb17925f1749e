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

// Handler serves /openapi/v2, /openapi/v3 and the paths below the latter.
type Handler struct {
	registry *resources.Registry
	now      func() time.Time
	cbor     bool // CBOR is among the encodings
	// definitions are the inputs for built documents; these are all documents if anew is set, and otherwise those that are not prepared.
	definitions Definitions
	anew        bool

	// external returns the documents of other servers, the same value until they change; its result may be nil. Nil: there are no other servers.
	external func() *External
	joined   atomic.Pointer[joined]

	base atomic.Pointer[baseV2]
	made atomic.Pointer[weak.Pointer[document]] // the last wide one, which lives no longer than its catalog

	goKinds atomic.Pointer[knownKinds]                          // the last known kinds
	few     atomic.Pointer[map[string]common.OpenAPIDefinition] // see fewDefinitions

	fixedOnce sync.Once
	fixed     map[string]*document // see fixedDocuments
	building  sync.Mutex           // held while a document is made
	recent    recent
	built     atomic.Int64
	summed    atomic.Int64 // documents whose ETag was computed for the index
}

// New returns a handler that describes the registry's contents at the time of each request. cbor says whether CBOR is among the encodings. It
// builds nothing yet.
// The request chain sets the headers common to all responses, Cache-Control among them.
func New(registry *resources.Registry, cbor bool) *Handler {
	return &Handler{registry: registry, now: time.Now, cbor: cbor, definitions: embedded}
}

// Join adds the documents of other servers. external returns the same value until they change; nil: there are none. Call it before the first
// request.
func (h *Handler) Join(external func() *External) { h.external = external }

// Built counts the documents that were built because no prepared one was equal.
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

// Rest compresses the remaining documents, and drops the document of version 2 with custom resources, which is large and can be rebuilt: it reports
// whether there was one. Clients that have it still get a 304. The server calls Rest when it is idle.
func (h *Handler) Rest() bool {
	h.goKinds.Store(nil) // not reported: that would cause a garbage collection
	h.few.Store(nil)     // not reported either
	h.building.Lock()
	defer h.building.Unlock()
	_ = h.recent.compress(h.registry.Catalog(), 0) // a form that cannot be compressed stays, and so do those after it
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
	// As in kube-apiserver the index has no ETag, its type is guessed (text/plain), and its modification time is now. It is sent whatever the
	// client has: kubectl may have read it in the same second in which it created a CustomResourceDefinition, and a date has no finer resolution.
	if r.Header.Get("If-Modified-Since") != "" {
		r = r.Clone(r.Context())
		r.Header.Del("If-Modified-Since")
	}
	serveContent(w, r, h.now(), bytes.NewReader(idx.data))
}

// serveV3 serves one document. With the current hash in its URL it may be cached forever; with another hash, the client is redirected to the
// current one.
func (h *Handler) serveV3(w http.ResponseWriter, r *http.Request, s *state, j *joined, src *source, name string) {
	doc := s.v3[name]
	if other := j.find(name); other != nil {
		theirs, err := other.Read(r.Context(), name)
		if err != nil {
			http.Error(w, "service unavailable", http.StatusServiceUnavailable) // as kube-apiserver, which forwards the request
			return
		}
		doc = &theirs.document
	}
	if doc == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if header := r.Header.Get("Accept"); header != "" && len(goautoneg.ParseAccept(header)) == 0 {
		return // as in kube-apiserver: an invalid Accept header gets an empty 200
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

// accepted returns the preferred encoding of a request. The protobuf types also have an older name, with an @ in it.
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
