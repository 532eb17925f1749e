package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// encoding is a form of a document.
type encoding int

const (
	asJSON encoding = iota
	asProtobuf
)

// document is one description, built when it is first asked for. All methods may be called at once.
type document struct {
	build    func(*source) ([]byte, error)
	protobuf func(json []byte) ([]byte, error)
	forms    [2]atomic.Pointer[form] // by encoding
}

// form is an encoding of a document as it is kept.
type form struct {
	etag     string // without quotes
	modified time.Time
	packed   []byte // compressed
}

// get returns an encoding, built from a source if it is the first time. A build that fails is tried again by the next
// who asks. The ETag is the same for all encodings, which Vary keeps apart.
func (d *document) get(s *source, e encoding) (*form, error) {
	if f := d.forms[e].Load(); f != nil {
		return f, nil
	}
	// One build at a time: each needs far more memory than what it makes.
	s.building.Lock()
	defer s.building.Unlock()
	if f := d.forms[e].Load(); f != nil {
		return f, nil
	}
	s.used = true
	if d.forms[asJSON].Load() == nil {
		json, err := d.build(s)
		if err != nil {
			return nil, err
		}
		if err := d.keep(asJSON, json, fmt.Sprintf("%X", sha512.Sum512(json)), s.now()); err != nil {
			return nil, err
		}
	}
	if e == asProtobuf {
		if err := d.encodeProtobuf(); err != nil {
			return nil, err
		}
	}
	return d.forms[e].Load(), nil
}

// encodeProtobuf makes the second form of a document from its first.
func (d *document) encodeProtobuf() error {
	f := d.forms[asJSON].Load()
	json, err := unpack(f.packed)
	if err != nil {
		return err
	}
	data, err := d.protobuf(json)
	if err != nil {
		return err
	}
	return d.keep(asProtobuf, data, f.etag, f.modified)
}

func (d *document) keep(e encoding, data []byte, etag string, modified time.Time) error {
	packed, err := pack(data)
	if err != nil {
		return err
	}
	d.forms[e].Store(&form{etag, modified, packed})
	return nil
}

// serve sends a form, with what http.ServeContent does for conditions and ranges.
func (f *form) serve(w http.ResponseWriter, r *http.Request) {
	data, err := unpack(f.packed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.ServeContent(w, r, "", f.modified, bytes.NewReader(data))
}

// serveCompressed is serve for clients that may take it as it is kept; Vary says that it depends on them.
func (f *form) serveCompressed(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" || !acceptsGzip(r) {
		f.serve(w, r)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	http.ServeContent(w, r, "", f.modified, bytes.NewReader(f.packed))
}

// acceptsGzip follows RFC 9110, section 12.5.3.
func acceptsGzip(r *http.Request) bool {
	for _, coding := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		q, weighted := strings.CutPrefix(strings.TrimSpace(params), "q=")
		weight, err := strconv.ParseFloat(q, 64)
		return !weighted || err == nil && weight > 0
	}
	return false
}

func pack(data []byte) ([]byte, error) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(buf.Bytes()), nil
}

func unpack(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
