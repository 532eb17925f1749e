package handlers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/flushwriter"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"github.com/rowlock/rowlock/server/codec"
)

// connect forwards a request to the target of the path: a kubelet or a pod ("exec", "proxy").
func (h *Handlers) connect(q *request) error {
	connecter := q.sub.Connect(h.Store)
	opts, takesPath, pathKey := connecter.NewConnectOptions()
	if err := h.Pipeline.Connect(q.ctx, q.served.Type, func() (runtime.Object, error) {
		if q.r.URL.Query().Has("dryRun") {
			return nil, apierrors.NewBadRequest("dryRun is not supported")
		}
		return opts, q.connectOptions(opts, takesPath, pathKey)
	}); err != nil {
		return err
	}
	ctx, cancel := h.untilDraining(q.ctx)
	defer cancel()
	responder := &responder{q: q}
	handler, err := connecter.Connect(ctx, q.info.Name, opts, responder)
	if err != nil {
		return q.unanswered(ctx, err)
	}
	handler.ServeHTTP(Interim(q.w), q.r.WithContext(ctx))
	return q.unanswered(ctx, responder.err)
}

// untilDraining returns a context that ends when the server shuts down, which would otherwise wait for the other end of the stream. The caller must
// cancel it.
func (h *Handlers) untilDraining(parent context.Context) (context.Context, context.CancelFunc) {
	return Until(h.Draining, parent)
}

// Until returns a context that ends when a channel is closed. The caller must cancel it.
func Until(over <-chan struct{}, parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-over:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// cut tells whether a shutdown, and not the client, ended the work under ctx, which is from untilDraining.
func (q *request) cut(ctx context.Context) bool { return ctx.Err() != nil && q.ctx.Err() == nil }

// unanswered returns the error for a request that failed before its response began. ctx is from untilDraining.
func (q *request) unanswered(ctx context.Context, err error) error {
	switch {
	case err != nil && q.cut(ctx):
		return apierrors.NewServiceUnavailable("the server is shutting down")
	case errors.Is(err, context.DeadlineExceeded) && q.ctx.Err() == nil:
		return errors.New(err.Error()) // a network timeout, which says it is that error, and not the end of the request's time
	}
	return err
}

// Interim returns a writer that forwards interim responses; see interimWriter.
func Interim(w http.ResponseWriter) http.ResponseWriter { return interimWriter{w} }

// interimWriter forwards interim responses (1xx, RFC 9110, section 15.2). It bypasses the wrapping writers, which might take the first header for
// the only one and drop the final one.
type interimWriter struct{ http.ResponseWriter }

func (w interimWriter) WriteHeader(code int) {
	to := w.ResponseWriter
	if code < http.StatusOK && code != http.StatusSwitchingProtocols {
		for {
			inner, ok := to.(interface{ Unwrap() http.ResponseWriter })
			if !ok {
				break
			}
			to = inner.Unwrap()
		}
	}
	to.WriteHeader(code)
}

func (w interimWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for callers that do not use http.ResponseController. So is Hijack.
func (w interimWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() } // a writer without Flush has no buffer

func (w interimWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// connectOptions decodes the options of a connection from the query and, if it takes one, from the path.
func (q *request) connectOptions(into runtime.Object, takesPath bool, pathKey string) error {
	query := q.r.URL.Query()
	if takesPath {
		query[pathKey] = []string{q.pathBelow()}
	}
	return q.decodeQuery(query, into)
}

// pathBelow returns the part of the path after the subresource.
func (q *request) pathBelow() string {
	p := strings.Join(q.info.Parts[3:], "/")
	if p != "" && !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if strings.HasSuffix(q.info.Path, "/") && !strings.HasSuffix(p, "/") {
		p += "/"
	}
	return p
}

// decodeQuery decodes options of the type's own group from a query.
func (q *request) decodeQuery(query url.Values, into runtime.Object) error {
	scheme, ok := q.served.Scheme.(*runtime.Scheme)
	if !ok {
		return fmt.Errorf("%s has no options", q.served.GroupResource)
	}
	if err := runtime.NewParameterCodec(scheme).DecodeParameters(query, q.served.GroupVersion(), into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// responder receives the error of a connection whose response has not begun. It implements upstream's rest.Responder.
type responder struct {
	q   *request
	err error
}

func (r *responder) Error(err error) { r.err = err }

func (r *responder) Object(code int, obj runtime.Object) {
	r.err = r.q.value(code, codec.Format{Media: codec.JSON, Pretty: codec.WantsPretty(r.q.r)}, obj)
}

// streamText streams a text from another server ("log").
func (h *Handlers) streamText(q *request) error {
	if _, err := q.offer.Negotiate(q.r, codec.Path{Text: true}); err != nil {
		return err
	}
	from := q.sub.Stream(h.Store)
	opts, _, _ := from.NewGetOptions()
	if err := q.decodeQuery(q.r.URL.Query(), opts); err != nil {
		return err
	}
	found, err := from.Get(q.ctx, q.info.Name, opts)
	if err != nil {
		return err
	}
	streamer, ok := found.(rest.ResourceStreamer)
	if !ok {
		return errors.New("there is nothing to stream")
	}
	ctx, cancel := h.untilDraining(q.ctx)
	defer cancel()
	text, follow, contentType, err := streamer.InputStream(ctx, q.served.GroupVersion().String(), q.r.Header.Get("Accept"))
	if err != nil {
		return q.unanswered(ctx, err)
	}
	if text == nil {
		q.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	defer text.Close()
	if wsstream.IsWebSocketRequest(q.r) {
		(&textSocket{q: q, h: h, ctx: ctx, cancel: cancel, text: text}).serve()
		return nil
	}
	q.copyText(text, contentType, follow)
	if q.cut(ctx) && !follow {
		panic(http.ErrAbortHandler) // a truncated text must not look complete, however reading it ended
	}
	return nil
}

// copyText streams a text. An error cannot be reported: the response has begun.
func (q *request) copyText(text io.Reader, contentType string, flush bool) {
	q.w.Header().Set("Content-Type", contentType)
	q.w.WriteHeader(http.StatusOK)
	if f, ok := q.w.(http.Flusher); ok {
		f.Flush()
	}
	var to io.Writer = q.w
	if flush {
		to = flushwriter.Wrap(q.w)
	}
	_, _ = io.Copy(to, text)
}
