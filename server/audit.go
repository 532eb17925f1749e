package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/auditing"
)

// withAuditEnd records the end of a request, after everything else that happens to it, writing the response included.
func (s *Server) withAuditEnd(next echo.HandlerFunc) echo.HandlerFunc {
	if s.Audit == nil {
		return next
	}
	return func(c echo.Context) error {
		ctx, q := s.Audit.With(requestctx.New(auditing.Apart(c.Request().Context())), c.Response().Header().Get("Audit-Id"), time.Now())
		c.SetRequest(c.Request().WithContext(ctx))
		if err := next(c); err != nil {
			s.writeError(err, c)
		}
		laterOf(c).Do(func(any) { q.End(ctx) })
		return nil
	}
}

// withAudit records that a request was received, as soon as its user is known, and has its response recorded. If a request must be recorded and
// cannot be, it is answered with an error.
func (s *Server) withAudit(next echo.HandlerFunc) echo.HandlerFunc {
	if s.Audit == nil {
		return func(c echo.Context) error {
			s.access.series().filters.audit.Observe(0) // kube-apiserver counts the requests that pass its filter, which does nothing without a policy
			return next(c)
		}
	}
	return func(c echo.Context) error {
		r := c.Request()
		ctx := r.Context()
		q, began := auditing.Of(ctx), time.Now()
		stream := longRunning(requestInfo(c))
		ctx, err := q.Begin(ctx, r, stream)
		if over := ctx.Err(); over != nil && errors.Is(err, over) {
			return err // the request has ended, usually by its deadline, while the event was being recorded
		}
		if err != nil {
			internalError(c, err)
			return nil
		}
		s.access.series().filters.audit.Observe(time.Since(began).Seconds())
		if !q.Enabled() {
			return next(c)
		}
		setContext(c, ctx)
		c.Response().Writer = &auditedWriter{ResponseWriter: c.Response().Writer, ctx: ctx, q: q, timed: !stream}
		defer func() {
			p, panicked := recover(), func(cause any) {
				if cause != nil {
					q.Panicked(ctx, cause)
				}
			}
			if p != nil {
				panicked(p)
				panic(p)
			}
			laterOf(c).Do(panicked)
		}()
		return next(c)
	}
}

// auditRefusal has the response recorded of a request that is refused before its user or its target is known. The event has the reason where the
// response does not.
func (s *Server) auditRefusal(c echo.Context, reason string) {
	if s.Audit == nil {
		return
	}
	r := c.Request()
	q := auditing.Of(r.Context())
	if err := q.Refuse(r.Context(), r, reason); err != nil {
		s.Logger.Error("audit", "error", err)
		return
	}
	if q.Enabled() {
		c.Response().Writer = &auditedWriter{ResponseWriter: c.Response().Writer, ctx: r.Context(), q: q}
	}
}

// authenticate returns the user of a request, and how long authentication took.
func (s *Server) authenticate(r *http.Request) (who user.Info, ok bool, took time.Duration, err error) {
	began := time.Now()
	who, ok, err = s.Authenticator(r)
	took = time.Since(began)
	if s.Audit != nil {
		auditing.Of(r.Context()).Authenticated(took)
	}
	return who, ok, took, err
}

// authorize asks the Pipeline whether the request is allowed, and notes how long that took.
func (s *Server) authorize(ctx context.Context) (context.Context, error) {
	if s.Audit == nil {
		return s.Pipeline.Authorize(ctx)
	}
	began := time.Now()
	known, err := s.Pipeline.Authorize(ctx)
	genericapirequest.TrackAuthorizationLatency(ctx, time.Since(began))
	return known, err
}

// unauthenticated lists the authentication methods that a client has tried, in kube-apiserver's words.
func unauthenticated(r *http.Request) string {
	var tried []string
	if _, _, ok := r.BasicAuth(); ok {
		tried = append(tried, "basic")
	}
	if parts := strings.Split(strings.TrimSpace(r.Header.Get("Authorization")), " "); len(parts) > 1 && strings.EqualFold(parts[0], "bearer") {
		tried = append(tried, "bearer")
	}
	if strings.TrimSpace(r.URL.Query().Get("access_token")) != "" {
		tried = append(tried, "access_token")
	}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		tried = append(tried, "x509")
	}
	if len(tried) == 0 {
		return "Authentication failed, no credentials provided"
	}
	return "Authentication failed, attempted: " + strings.Join(tried, ", ")
}

// internalError writes kube-apiserver's plain-text response, not a Status, to a request that cannot be processed.
func internalError(c echo.Context, err error) {
	http.Error(c.Response(), uriEscaper.Replace(fmt.Sprintf("Internal Server Error: %q: %v", c.Request().RequestURI, err)), http.StatusInternalServerError)
}

// auditedWriter records the status code of a response before the code is sent.
type auditedWriter struct {
	http.ResponseWriter
	ctx  context.Context
	q    *auditing.Request
	said bool
	// timed says that the time for writing the response is recorded. It is false for streams.
	timed bool
}

func (w *auditedWriter) say(code int) {
	if !w.said {
		w.said = true
		w.q.Respond(w.ctx, code)
		if w.timed {
			w.q.Writing()
		}
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *auditedWriter) WriteHeader(code int) {
	w.say(code)
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *auditedWriter) Write(p []byte) (int, error) {
	w.say(http.StatusOK)
	if !w.timed {
		return w.ResponseWriter.Write(p)
	}
	began := time.Now()
	n, err := w.ResponseWriter.Write(p)
	w.q.Wrote(began)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *auditedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker: another protocol takes over the connection.
func (w *auditedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.say(http.StatusSwitchingProtocols)
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
