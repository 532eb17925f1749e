package handlers

import (
	"bufio"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/cork"
)

// value writes an object that is not a stored one; versioned has its kind set.
func (q *request) value(code int, f codec.Format, versioned runtime.Object) error {
	if f.Refusal != nil {
		return f.Refusal
	}
	data, err := codec.Value(versioned, f)
	if err != nil {
		return err
	}
	return q.bytes(code, f, data)
}

func (q *request) bytes(code int, f codec.Format, data []byte) error {
	q.w.Header().Set("Content-Type", f.ContentType(false))
	WriteBody(q.w, q.r, q.offer, code, data)
	return nil
}

// chunkSize is how much of a list is written at a time: large enough that a write costs little, small enough that
// memory stays bounded whatever the size of the list.
const chunkSize = 256 << 10

var chunks = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, chunkSize) }}

// stream writes a list as it is produced.
func (q *request) stream(f codec.Format, list *codec.List) error {
	q.w.Header().Set("Content-Type", f.ContentType(false))
	corked := cork.Of(q.r)
	corked.Cork()
	defer corked.Uncork()
	if fastpath.GzipRuns.On() && list.Items != nil && !q.offer.PlainBodies && acceptsGzip(q.r) && longerThan(list.Items, compressFrom) {
		return q.joined(list.Items)
	}
	b := newBody(q.w, q.r, q.offer, http.StatusOK)
	buf := chunks.Get().(*bufio.Writer)
	buf.Reset(b)
	defer func() {
		buf.Reset(nil)
		chunks.Put(buf)
	}()
	if err := list.Write(buf); err != nil {
		abort()
	}
	_ = buf.Flush() // the client is gone: the error cannot be reported
	_ = b.Close()
	return nil
}

// abort ends an answer of which only a part is on its way. The connection is cut so that no client takes the part for the whole.
func abort() { panic(http.ErrAbortHandler) }

// tableOptions reads and checks the options of a Table.
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
