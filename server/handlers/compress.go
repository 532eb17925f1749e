package handlers

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// "Response compression" of the API concepts page: what is larger than compressFrom bytes is compressed for clients that
// take gzip, at the level that kube-apiserver uses, the fastest. Watches never are.
const compressFrom = 128 << 10

var gzips = sync.Pool{New: func() any {
	w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a valid one
	}
	return w
}}

// acceptsGzip tells whether the client named gzip, as kube-apiserver reads it: no weights.
func acceptsGzip(r *http.Request) bool {
	for _, header := range r.Header.Values("Accept-Encoding") {
		for encoding := range strings.SplitSeq(header, ",") {
			if strings.TrimSpace(encoding) == "gzip" {
				return true
			}
		}
	}
	return false
}

// body is the body of an answer. Its first write decides whether it is compressed and sends the headers.
type body struct {
	q    *request
	code int
	to   io.Writer
	gzip *gzip.Writer
}

func (b *body) Write(p []byte) (int, error) {
	if b.to == nil {
		b.begin(len(p) > compressFrom && acceptsGzip(b.q.r))
	}
	return b.to.Write(p)
}

func (b *body) begin(compress bool) {
	b.to = b.q.w
	if compress {
		h := b.q.w.Header()
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		h.Del("Content-Length")
		b.gzip = gzips.Get().(*gzip.Writer)
		b.gzip.Reset(b.q.w)
		b.to = b.gzip
	}
	b.q.w.WriteHeader(b.code)
}

// Close ends the body.
func (b *body) Close() error {
	if b.to == nil {
		b.begin(false)
	}
	if b.gzip == nil {
		return nil
	}
	err := b.gzip.Close()
	b.gzip.Reset(nil)
	gzips.Put(b.gzip)
	return err
}
