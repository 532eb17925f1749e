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

// "Response compression" of the API concepts page: what is larger than compressFrom bytes is compressed for clients that
// take gzip, at the level that kube-apiserver uses, the fastest. So is a watch that begins with a list (KEP-3157), whatever
// its size; other watches are not.
const compressFrom = 128 << 10

var gzips = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a valid one
	}
	return w
}}

// sayGzip sets the headers of an answer that is compressed.
func sayGzip(h http.Header) {
	h.Set("Content-Encoding", "gzip")
	h.Add("Vary", "Accept-Encoding")
	h.Del("Content-Length")
}

// packer compresses. What a compressor makes comes in small pieces, which over HTTP/2 would be frames of 4 KiB, each sent and
// acknowledged by itself.
type packer struct {
	*gzip.Writer
	out *bufio.Writer
}

// newPacker takes a compressor and a buffer from those that are not in use; Close puts them back.
func newPacker(to io.Writer) *packer {
	p := &packer{gzips.Get().(*gzip.Writer), frameBuffers.Get().(*bufio.Writer)}
	p.out.Reset(to)
	p.Reset(p.out)
	return p
}

// Close ends what is compressed, and sends the rest of it.
func (p *packer) Close() error {
	err := errors.Join(p.Writer.Close(), p.out.Flush())
	p.Reset(nil)
	gzips.Put(p.Writer)
	p.out.Reset(nil)
	frameBuffers.Put(p.out)
	return err
}

// WriteBody sends an answer whose headers are set and whose body is whole, in pieces or in one, compressed if it is large and the client
// takes that.
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

// splitFrom is how many bytes of body net/http may send in two writes: it has a buffer of 4 KiB for these and the header.
const splitFrom = 3 << 10

// body is the body of an answer. Its first write decides whether it is compressed and sends the headers.
type body struct {
	w    http.ResponseWriter
	r    *http.Request
	code int
	// plain: it is not compressed however large it is.
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

// compresses tells whether a body whose first write, or which as a whole, has so many bytes is compressed.
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

// Close ends the body.
func (b *body) Close() error {
	if b.to == nil {
		b.begin(false)
	}
	if b.gzip == nil {
		return nil
	}
	return b.gzip.Close()
}
