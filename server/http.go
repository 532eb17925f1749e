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

// HTTP is what all answers and all connections have in common.
type HTTP struct {
	// CORSAllowedOrigins are regular expressions of the origins whose pages browsers may let ask.
	CORSAllowedOrigins []string
	// HSTSDirectives are sent to browsers, so that they come by HTTPS alone.
	HSTSDirectives []string
	// GoawayChance is of how many requests one has an HTTP/2 client begin another connection, from 0 to 1.
	GoawayChance float64
	// MaxStreams is how many requests an HTTP/2 connection may have under way. Default: that of the HTTP/2 server.
	MaxStreams int
	// WithoutHTTP2 has all clients speak HTTP/1.1.
	WithoutHTTP2 bool
	// MinWatchTimeout is the least time that the server lets a watch live which names none. Default 30 minutes.
	MinWatchTimeout time.Duration
	// ShutdownDelay is how long a server that is told to stop answers as before, but for /readyz.
	ShutdownDelay time.Duration
	// RetryAfter has a server that stops answer new requests with 429 for as long as others are being finished.
	RetryAfter bool
	// WithoutProfiling serves neither /debug/pprof/ nor /debug/flags/.
	WithoutProfiling bool
	// SetVerbosity sets how much is logged, for /debug/flags/v, and returns what to answer. Nil: there is no such page.
	SetVerbosity func(string) (answer string, err error)
}

// optional are the filters that only some servers want: those before the time of a request begins, and those before it is known who asks.
func (s *Server) optional() (outer, inner []echo.MiddlewareFunc) {
	passed := http.HandlerFunc(pass)
	if len(s.HSTSDirectives) > 0 {
		outer = append(outer, through(filters.WithHSTS(passed, s.HSTSDirectives)))
	}
	if s.GoawayChance > 0 {
		outer = append(outer, through(filters.WithProbabilisticGoaway(passed, s.GoawayChance)))
	}
	if s.RetryAfter {
		inner = append(inner, exceptOwn(through(filters.WithRetryAfter(passed, s.draining))))
	}
	if len(s.CORSAllowedOrigins) > 0 {
		inner = append(inner, through(filters.WithCORS(passed, s.CORSAllowedOrigins, nil, nil, nil, "true")))
	}
	return outer, inner
}

// exceptOwn has the requests pass a filter that come from without: those that the server sends to itself are part of what it does to
// answer others, and to end.
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

// through has requests pass a filter of upstream's, whose handler is pass.
func through(filter http.Handler) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			p := passing{ResponseWriter: c.Response(), c: c, next: next}
			filter.ServeHTTP(&p, c.Request())
			return p.err
		}
	}
}

// readBody reads a body of at most so many bytes, in the time that the request has.
func readBody(c echo.Context, most int64) ([]byte, error) {
	r := c.Request()
	return handlers.InTime(r.Context(), c.Response(), r, func() ([]byte, error) {
		return io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, most))
	})
}

// lastWords is how long a client may take to read that the time of its request is over.
const lastWords = time.Second

// cutOff ends writes of an answer that nobody reads, soon after the time of the request is over, which ctx says, and reads of a body that
// nobody asks for: over HTTP/1.1 net/http waits for that before it answers. The caller calls stop when it is answered.
func cutOff(ctx context.Context, r *http.Request, w *echo.Response) (stop func()) {
	until, limited := ctx.Deadline()
	c := http.NewResponseController(w.Writer) // echo keeps the error of a Flush to itself
	if !limited || c.SetWriteDeadline(until.Add(lastWords)) != nil {
		return func() {} // what has no deadlines is no connection
	}
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		_ = c.SetReadDeadline(until) // until the body is read: InTime; or until the next request of the connection
	}
	return func() {
		// What is left of an answer whose client does not read would be waited for without an end.
		if time.Now().Before(until) || !w.Committed || c.Flush() == nil {
			_ = c.SetWriteDeadline(time.Time{}) // for the next request of the connection, if there is one
		}
	}
}

// delayShutdown keeps a server that is told to stop answering for a while, in which load balancers learn of it from /readyz. It returns
// before with the error of a server that can no longer serve.
func (s *Server) delayShutdown(served <-chan error) error {
	if s.ShutdownDelay <= 0 {
		return nil
	}
	delay := time.NewTimer(s.ShutdownDelay)
	defer delay.Stop()
	select {
	case err := <-served:
		return err
	case <-delay.C:
		return nil
	}
}

// finishRequests waits until no request is under way, while new ones are answered with 429 by the filter that RetryAfter adds.
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
