package handlers

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/cork"
)

// value writes an object that is not a stored one. Its kind must be set.
func (q *request) value(code int, f codec.Format, versioned runtime.Object) error {
	if f.Refusal != nil {
		return f.Refusal
	}
	began := time.Now()
	data, err := codec.Value(versioned, f)
	if err != nil {
		return err
	}
	q.audit.Made(began)
	q.auditValue(versioned)
	return q.bytes(code, f, data)
}

func (q *request) bytes(code int, f codec.Format, pieces ...[]byte) error {
	q.w.Header().Set("Content-Type", f.ContentType(false))
	WriteBody(q.w, q.r, q.offer, code, pieces...)
	return nil
}

// chunkSize is how much of a list is written at a time: large enough for cheap writes, small enough to bound the memory for a list of any size.
const chunkSize = 256 << 10

var chunks = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, chunkSize) }}

// stream writes a list as it is rendered.
func (q *request) stream(f codec.Format, list *codec.List) error {
	q.w.Header().Set("Content-Type", f.ContentType(false))
	corked := cork.Of(q.r)
	corked.Cork()
	defer corked.Uncork()
	compress := !q.offer.PlainBodies && codec.NamesGzip(q.r)
	if compress && fastpath.GzipRuns.On() && list.Items != nil && longerThan(list.Items, compressFrom) {
		return q.joined(list.Items)
	}
	b := newBody(q.w, q.r, q.offer, http.StatusOK)
	// The first write decides about compression, so it must be a large one. Lists of metadata, Tables and indented JSON are written in strings or
	// very small pieces.
	large := list.Items != nil && f.As != codec.AsPartial
	if err := inChunks(b, compress || !large || !gathers(q.w), list.Write); err != nil {
		q.abort()
		return nil
	}
	_ = b.Close() // the client is gone: the error cannot be reported
	return nil
}

// inChunks buffers write's output into chunks, if gather is set. An error is that of write.
func inChunks(to io.Writer, gather bool, write func(io.Writer) error) error {
	if !gather {
		return write(to)
	}
	buf := chunks.Get().(*bufio.Writer)
	buf.Reset(to)
	defer func() {
		buf.Reset(nil)
		chunks.Put(buf)
	}()
	if err := write(buf); err != nil {
		return err
	}
	_ = buf.Flush() // fails only if the client is gone
	return nil
}

// gathers tells whether the ResponseWriter buffers small writes, as server/h2 does. net/http makes an HTTP/1.1 chunk of each write that is larger
// than its buffer. Buffering before a writer that buffers would copy a list once more than needed.
func gathers(w http.ResponseWriter) bool {
	for {
		switch inner := w.(type) {
		case interface{ Gathers() }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return false
		}
	}
}

// abort ends a partly written response. It cuts the connection, so that no client takes the part for the whole. If the client itself has gone, it
// only returns: that is no fault. Either way the audit records the response as started, as kube-apiserver does.
func (q *request) abort() {
	if errors.Is(q.r.Context().Err(), context.Canceled) {
		return
	}
	if q.audit != nil {
		q.audit.End(q.ctx)
	}
	panic(http.ErrAbortHandler)
}

// tableOptions decodes and validates the options of a Table.
func tableOptions(r *http.Request) (*metav1.TableOptions, error) {
	opts := &metav1.TableOptions{}
	if r.URL.RawQuery == "" {
		return opts, nil
	}
	if err := metainternalversionscheme.ParameterCodec.DecodeParameters(r.URL.Query(), metav1.SchemeGroupVersion, opts); err != nil {
		return nil, err
	}
	switch errs := metav1validation.ValidateTableOptions(opts); len(errs) {
	case 0:
		return opts, nil
	case 1:
		return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs[0].Error())
	default:
		return nil, apierrors.NewBadRequest("Unable to convert to Table as requested: " + errs.ToAggregate().Error())
	}
}
