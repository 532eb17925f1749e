package server

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"k8s.io/apiserver/pkg/server/filters"

	"github.com/rowlock/rowlock/server/handlers"
)

// HTTP are settings of all responses and all connections.
type HTTP struct {
	// CORSAllowedOrigins are regular expressions of the origins whose pages may send requests from a browser.
	CORSAllowedOrigins []string
	// HSTSDirectives are sent to browsers, so that they use HTTPS only.
	HSTSDirectives []string
	// GoawayChance is the probability, from 0 to 1, that a request makes an HTTP/2 client open another connection.
	GoawayChance float64
	// MaxStreams bounds the concurrent requests of an HTTP/2 connection. Default: that of the HTTP/2 server.
	MaxStreams int
	// WithoutHTTP2 restricts all clients to HTTP/1.1.
	WithoutHTTP2 bool
	// MinWatchTimeout is the least timeout of a watch that requests none. Default 30 minutes.
	MinWatchTimeout time.Duration
	// ShutdownDelay is how long the server goes on serving after it is told to stop, with /readyz failing.
	ShutdownDelay time.Duration
	// RetryAfter makes a server that is stopping reject new requests with 429 until those in flight are finished.
	RetryAfter bool
	// WithoutProfiling disables /debug/pprof/ and /debug/flags/.
	WithoutProfiling bool
	// SetVerbosity sets the log verbosity, for /debug/flags/v, and returns the response. Nil: there is no such page.
	SetVerbosity func(string) (answer string, err error)
}

// optional returns the filters that depend on the configuration: those before the request is counted, those before the deadline is set, and those
// before authentication.
func (s *Server) optional() (first, outer, inner []echo.MiddlewareFunc) {
	passed := http.HandlerFunc(pass)
	if s.RetryAfter {
		first = append(first, exceptOwn(through(filters.WithRetryAfter(passed, s.draining))))
	}
	if len(s.HSTSDirectives) > 0 {
		outer = append(outer, through(filters.WithHSTS(passed, s.HSTSDirectives)))
	}
	if s.GoawayChance > 0 {
		outer = append(outer, through(filters.WithProbabilisticGoaway(passed, s.GoawayChance)))
	}
	if len(s.CORSAllowedOrigins) > 0 {
		inner = append(inner, through(filters.WithCORS(passed, s.CORSAllowedOrigins, nil, nil, nil, "true")))
	}
	return first, outer, inner
}

// exceptOwn exempts the server's internal requests from a filter: answering other requests, and shutting down, depend on them.
func exceptOwn(filter echo.MiddlewareFunc) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		filtered := filter(next)
		return func(c echo.Context) error {
			if isInternal(c.Request().Context()) {
				return next(c)
			}
			return filtered(c)
		}
	}
}

// through runs one of upstream's filters, whose handler is pass. Not inlined, because each call would take a copy of its functions in the binary.
//
//go:noinline
func through(filter http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			p := passing{ResponseWriter: c.Response(), c: c, next: next}
			filter.ServeHTTP(&p, c.Request())
			return p.err
		}
	}
}

// readBody reads a body of at most that many bytes, within the request's deadline.
func readBody(c echo.Context, most int64) ([]byte, error) {
	r := c.Request()
	return handlers.InTime(r.Context(), c.Response(), r, func() ([]byte, error) {
		return io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, most))
	})
}

// lastWords is how long a client may take to read that the deadline of its request has passed.
const lastWords = time.Second

// cutOff bounds I/O by ctx's deadline. It ends writes to a client that does not read, soon after the deadline, and reads of an unread body, for
// which net/http waits over HTTP/1.1 before it responds. The caller calls stop after the response.
func cutOff(ctx context.Context, r *http.Request, w *echo.Response) (stop func()) {
	until, limited := ctx.Deadline()
	c := http.NewResponseController(w.Writer) // echo drops the error of a Flush
	if !limited || c.SetWriteDeadline(until.Add(lastWords)) != nil {
		return func() {} // a writer without deadlines is no connection
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		_ = c.SetReadDeadline(until) // InTime resets it after the body, or net/http for the next request
	}
	if r.ProtoMajor == 2 {
		return func() {} // the deadline belongs to the stream, and bounds what is sent when the handler has returned
	}
	return func() {
		// Flush first: without a deadline the rest of the response would wait forever for a client that does not read.
		if time.Now().Before(until) || !w.Committed || c.Flush() == nil {
			_ = c.SetWriteDeadline(time.Time{}) // for the next request of the connection, if there is one
		}
	}
}

// leaveTimeout bounds the wait for Left after ShutdownDelay.
const leaveTimeout = 5 * time.Second

// delayShutdown keeps a stopping server serving for ShutdownDelay, so that load balancers learn of the shutdown from /readyz, and until clients
// no longer find it by the Service kubernetes. It returns early, with the error, if serving ends.
func (s *Server) delayShutdown(served <-chan error) error {
	delay := time.NewTimer(s.ShutdownDelay)
	defer delay.Stop()
	select {
	case err := <-served:
		return err
	case <-delay.C:
	}
	if s.Left == nil {
		return nil
	}
	delay.Reset(leaveTimeout)
	select {
	case err := <-served:
		return err
	case <-s.Left:
	case <-delay.C:
	}
	return nil
}

// finishRequests waits until no request is in flight. Meanwhile the filter of RetryAfter rejects new ones with 429.
func (s *Server) finishRequests(ctx context.Context) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for s.underWay.Load() > 0 || s.handlers.Watches() > 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
