package openapi

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/klauspost/compress/gzip"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

// encoding is the encoding of a document.
type encoding int

const (
	asJSON encoding = iota
	asProtobuf
)

// document is one OpenAPI document, which is made on the first request: from a prepared one if that is equal, otherwise it is built. Its methods
// may be called concurrently.
type document struct {
	*format
	// of is the group of the document, which is replaced when a type in it changes; nil: the document is not one group's.
	of *resources.Group
	// describe returns the operations.
	describe func() ([]*routes, error)
	// sum computes the fingerprint without the operations, if possible. The document is not prepared then. May be nil.
	sum func(*source) (string, error)
	// wide, when set, writes the JSON part by part, unless parts have names in common.
	wide *wide
	// join, when set, makes the JSON instead of everything above; the caller holds source.building.
	join   func(*source) ([]byte, error)
	forms  [2]atomic.Pointer[form] // by encoding
	hashed atomic.Pointer[string]  // the ETag, once it is known
	listed atomic.Pointer[[]byte]  // the entry of the index, once it is known
}

// format is a version of OpenAPI.
type format struct {
	name     string
	build    func(*source, []*routes) ([]byte, error)
	protobuf func(json []byte) ([]byte, error)
}

// form is an encoding of a document in memory.
type form struct {
	etag     string // without quotes
	modified time.Time
	// The form is either compressed or text. If it is neither, it was dropped.
	packed blocks
	text   []byte
}

// there tells whether a form is in memory.
func (f *form) there() bool { return f != nil && (f.packed != nil || f.text != nil) }

// data returns the whole form, which must not be modified.
func (f *form) data() ([]byte, error) {
	if f.text != nil {
		return f.text, nil
	}
	return f.packed.unpack()
}

// get returns an encoding, made from a source the first time. After an error the next caller tries again. All encodings have the same ETag; Vary
// distinguishes them.
func (d *document) get(s *source, e encoding) (*form, error) {
	if f := d.forms[e].Load(); f.there() {
		return f, nil
	}
	// Build one at a time: building needs far more memory than the result.
	s.building.Lock()
	defer s.building.Unlock()
	if !d.forms[asJSON].Load().there() {
		if err := d.makeJSON(s); err != nil {
			return nil, err
		}
	}
	if e == asProtobuf && !d.forms[e].Load().there() {
		s.used = true
		if err := d.encodeProtobuf(s); err != nil {
			return nil, err
		}
	}
	return d.forms[e].Load(), nil
}

func (d *document) makeJSON(s *source) error {
	if d.wide != nil && fastpath.OpenAPI.On() {
		if err := d.makeWide(s); !errors.Is(err, errAlike) {
			return err
		}
	}
	if d.join != nil {
		s.used = true
		json, err := d.join(s)
		if err != nil {
			return err
		}
		return d.keep(asJSON, json, etagOf(json), s.now())
	}
	all, err := d.encoded(s)
	if err != nil {
		return err
	}
	found, etag, err := d.identify(s, all)
	if err != nil {
		return err
	}
	if found.etag != "" && !s.anew && fastpath.OpenAPI.On() {
		return d.usePrepared(s, found)
	}
	s.used = s.used || d.sum == nil // a document of a few custom resources is not worth a garbage collection
	s.built.Add(1)
	if d.sum == nil && fastpath.OpenAPI.On() {
		fastpath.OpenAPI.Fallback() // documents of custom resources count when wordV3 does not write them
	}
	json, err := d.build(s, all)
	if err != nil {
		return err
	}
	if d.name == nameV2 {
		etag = etagOf(json) // it is in no index, and different inputs may produce the same document
	}
	return s.keepRecent(d, asJSON, json, etag, s.now())
}

// makeWide writes a document part by part.
func (d *document) makeWide(s *source) error {
	s.used = true
	s.built.Add(1)
	packed, etag, err := d.wide.make(s)
	if err != nil {
		return err
	}
	f := &form{etag: etag, modified: s.now(), packed: packed}
	if before := d.forms[asJSON].Load(); before != nil {
		f.modified = before.modified // it was dropped meanwhile
	}
	d.forms[asJSON].Store(f)
	made := weak.Make(d)
	s.made.Store(&made)
	return nil
}

// identify returns the prepared document that equals this one, if any, and the ETag, which for other documents is computed from the inputs. all may
// be nil: it is then computed if needed.
func (d *document) identify(s *source, all []*routes) (found prepared, etag string, err error) {
	var sum string
	if d.sum != nil {
		sum, err = d.sum(s)
	} else {
		if all == nil {
			if all, err = d.encoded(s); err != nil {
				return found, "", err
			}
		}
		sum, err = s.fingerprint(d.name, all)
		found, _ = findPrepared(sum)
	}
	return found, cmp.Or(found.etag, strings.ToUpper(sum)), err
}

func etagOf(json []byte) string { return fmt.Sprintf("%X", sha512.Sum512(json)) }

// encoded returns the operations, each with all encodings of the server.
func (d *document) encoded(s *source) ([]*routes, error) {
	all, err := d.describe()
	if err != nil {
		return nil, err
	}
	for i, r := range all {
		all[i] = s.encoded(r)
	}
	return all, nil
}

func (d *document) usePrepared(s *source, p prepared) error {
	now := s.now()
	if p.name == nameV2 {
		d.forms[asProtobuf].Store(&form{etag: p.etag, modified: now, packed: blocks{v2Protobuf}})
		d.forms[asJSON].Store(&form{etag: p.etag, modified: now, packed: blocks{v2JSON}})
		return nil
	}
	json, err := p.json()
	if err != nil {
		return err
	}
	return s.keepRecent(d, asJSON, json, p.etag, now)
}

// etag returns the ETag of a document of version 3, without making the document.
func (d *document) etag(s *source) (string, error) {
	if known := d.hashed.Load(); known != nil {
		return *known, nil
	}
	s.summed.Add(1)
	_, etag, err := d.identify(s, nil)
	if err != nil {
		return "", err
	}
	d.hashed.Store(&etag)
	return etag, nil
}

func (d *document) encodeProtobuf(s *source) error {
	f := d.forms[asJSON].Load()
	if d.wide != nil && fastpath.OpenAPI.On() {
		packed, err := packProtobufV2(f.packed)
		if err != nil {
			return err
		}
		d.forms[asProtobuf].Store(&form{etag: f.etag, modified: f.modified, packed: blocks{packed}})
		return nil
	}
	json, err := f.data()
	if err != nil {
		return err
	}
	data, err := d.protobuf(json)
	if err != nil {
		return err
	}
	return s.keepRecent(d, asProtobuf, data, f.etag, f.modified)
}

// keep stores a form compressed.
func (d *document) keep(e encoding, data []byte, etag string, modified time.Time) error {
	packed, err := pack(data)
	if err != nil {
		return err
	}
	d.forms[e].Store(&form{etag: etag, modified: modified, packed: blocks{packed}})
	return nil
}

// serve sends a form; http.ServeContent evaluates conditions and ranges.
func (f *form) serve(w http.ResponseWriter, r *http.Request) {
	if !f.there() { // the client has it: the response is a 304
		serveContent(w, r, f.modified, bytes.NewReader(nil))
		return
	}
	if f.text != nil {
		serveContent(w, r, f.modified, bytes.NewReader(f.text))
		return
	}
	data, err := newUnpacker(f.packed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	serveContent(w, r, f.modified, data)
}

// serveContent is http.ServeContent, except that the response to an unsatisfiable range has Cache-Control, which http.ServeContent removes.
func serveContent(w http.ResponseWriter, r *http.Request, modified time.Time, data io.ReadSeeker) {
	http.ServeContent(uncached{w}, r, "", modified, data)
}

// uncached keeps the response to an unsatisfiable range out of caches, as kube-apiserver does.
type uncached struct{ http.ResponseWriter }

func (w uncached) WriteHeader(code int) {
	if code == http.StatusRequestedRangeNotSatisfiable {
		w.Header().Set("Cache-Control", "no-cache, private")
	}
	w.ResponseWriter.WriteHeader(code)
}

// serveCompressed is serve for clients that may accept the compressed form; Vary covers this.
func (f *form) serveCompressed(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" || !codec.AllowsGzip(r) {
		f.serve(w, r)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	serveContent(w, r, f.modified, f.packed.reader())
}

// packers are pooled while documents are made: each takes a megabyte.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }}

func pack(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	z := packers.Get().(*gzip.Writer)
	defer packers.Put(z)
	z.Reset(&buf)
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(buf.Bytes()), nil
}

func unpack(packed []byte) ([]byte, error) { return blocks{packed}.unpack() }

func (b blocks) unpack() ([]byte, error) {
	u, err := newUnpacker(b)
	if err != nil {
		return nil, err
	}
	data := make([]byte, u.size)
	_, err = io.ReadFull(u, data)
	return data, err
}
