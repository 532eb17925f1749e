package handlers

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/cork"
)

// compressFrom is the size in bytes above which a response is compressed ("Response compression" of the API concepts page) for clients that accept
// gzip, at kube-apiserver's level, the fastest. A watch that begins with a list (KEP-3157) is compressed whatever its size; other watches are not.
const compressFrom = 128 << 10

var gzips = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // cannot happen: the level is valid
	}
	return w
}}

// sayGzip sets the headers of a compressed response.
func sayGzip(h http.Header) {
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	h.Del("Content-Length")
}

// packer compresses into a buffer. A compressor writes small pieces, which over HTTP/2 would be frames of 4 KiB, each sent and acknowledged on its
// own.
type packer struct {
	*gzip.Writer
	out *bufio.Writer
}

// newPacker takes a compressor and a buffer from their pools; Close puts them back.
func newPacker(to io.Writer) *packer {
	p := &packer{gzips.Get().(*gzip.Writer), frameBuffers.Get().(*bufio.Writer)}
	p.out.Reset(to)
	p.Reset(p.out)
	return p
}

// Close finishes the compressed stream and flushes it.
func (p *packer) Close() error {
	err := errors.Join(p.Writer.Close(), p.out.Flush())
	p.Reset(nil)
	gzips.Put(p.Writer)
	p.out.Reset(nil)
	frameBuffers.Put(p.out)
	return err
}

// WriteBody writes a response whose headers are set and whose body is complete, in one or more pieces. A large body is compressed if the client
// accepts that.
func WriteBody(w http.ResponseWriter, r *http.Request, offer *codec.Offer, code int, pieces ...[]byte) {
	size := 0
	for _, p := range pieces {
		size += len(p)
	}
	w.Header().Set("Content-Length", strconv.Itoa(size))
	if conn := cork.Of(r); conn != nil && size > splitFrom {
		conn.Cork()
		defer conn.Uncork()
		defer http.NewResponseController(w).Flush() //nolint:errcheck // as below
	}
	b := newBody(w, r, offer, code)
	b.begin(b.compresses(size))
	for _, p := range pieces {
		if _, err := b.Write(p); err != nil {
			break // the client is gone: the error cannot be reported
		}
	}
	_ = b.Close()
}

// splitFrom is the body size above which net/http may use two writes: its buffer of 4 KiB holds the header and the body.
const splitFrom = 3 << 10

// body is the body of a response. Its first write decides on compression and sends the headers.
type body struct {
	w    http.ResponseWriter
	r    *http.Request
	code int
	// plain disables compression.
	plain bool
	to    io.Writer
	gzip  *packer
}

func newBody(w http.ResponseWriter, r *http.Request, offer *codec.Offer, code int) *body {
	return &body{w: w, r: r, code: code, plain: offer.PlainBodies}
}

func (b *body) Write(p []byte) (int, error) {
	if b.to == nil {
		b.begin(b.compresses(len(p)))
	}
	return b.to.Write(p)
}

// compresses tells whether a body is compressed whose first write, or whole, has this size.
func (b *body) compresses(size int) bool {
	return size > compressFrom && !b.plain && codec.NamesGzip(b.r)
}

func (b *body) begin(compress bool) {
	b.to = b.w
	if compress {
		sayGzip(b.w.Header())
		b.gzip = newPacker(b.w)
		b.to = b.gzip
	}
	b.w.WriteHeader(b.code)
}

// Close finishes the body.
func (b *body) Close() error {
	if b.to == nil {
		b.begin(false)
	}
	if b.gzip == nil {
		return nil
	}
	return b.gzip.Close()
}
