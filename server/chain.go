package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	epmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/handlers"
	"github.com/rowlock/rowlock/server/status"
)

// chain returns the middleware that every request passes, from the outside in. It is composed once, and not for each request, as the router would
// do: the innermost handler is the one that the router has found for the request.
func (s *Server) chain() echo.MiddlewareFunc {
	whole := echo.HandlerFunc(func(c echo.Context) error { return c.Handler()(c) })
	for _, pass := range slices.Backward(s.passes()) {
		whole = pass(whole)
	}
	return func(echo.HandlerFunc) echo.HandlerFunc { return whole }
}

func (s *Server) passes() []echo.MiddlewareFunc {
	first, outer, inner := s.optional()
	return slices.Concat([]echo.MiddlewareFunc{
		s.withAuditID,     // gives the request an ID
		s.withAuditEnd,    // records the end
		s.withRequestInfo, // parses verb and resource
	}, first, []echo.MiddlewareFunc{
		withCacheControl, // Cache-Control headers
		s.withMetrics,    // counts it, whatever its outcome
		s.withRecovery,   // a panic fails this request alone, with a 500
	}, outer, []echo.MiddlewareFunc{
		s.withDeadline, // bounds everything but streams
		s.withWarnings, // Warning headers
	}, inner, []echo.MiddlewareFunc{
		s.withUser,          // authenticates: 401
		s.withAudit,         // records the receipt
		s.withImpersonation, // replaces the user by the impersonated one
		s.withFlow,          // limits the requests in flight: 429
		s.withAuthorization, // authorizes: 403
		s.withAnyMethod,     // methods that the router does not know
		withTimeLeft,        // rejects requests whose deadline has passed: 504
	})
}

func (s *Server) withAuditID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get("Audit-Id")
		if id == "" {
			id = uuid.NewString()
		}
		c.Response().Header()["Audit-Id"] = []string{id}
		return next(c)
	}
}

// withCacheControl comes after the filters that answer without this header, as in kube-apiserver.
func withCacheControl(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header()["Cache-Control"] = noCache
		return next(c)
	}
}

// noCache keeps responses to authenticated clients out of shared caches (RFC 9111, 5.2.2).
var noCache = []string{"no-cache, private"}

func (s *Server) withRequestInfo(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		info, err := s.info.NewRequestInfo(r)
		if err != nil {
			internalError(c, fmt.Errorf("failed to create RequestInfo: %w", err))
			return nil
		}
		ctx := r.Context()
		if s.Audit == nil { // otherwise withAuditEnd has made the context
			ctx = requestctx.New(ctx)
		}
		ctx = requestctx.WithRequestInfo(ctx, info)
		s.refresh(ctx)
		if info.Verb == "watch" {
			ctx = handlers.WithLater(ctx, &handlers.Later{Began: time.Now()})
		} else { // a watch's duration is no latency
			ctx = requestctx.WithLatencyTrackers(ctx)
		}
		if info.IsResourceRequest {
			ctx = resources.WithCatalog(ctx, s.Registry.Catalog()) // one catalog for the whole request
		}
		setContext(c, ctx)
		return next(c)
	}
}

// laterOf returns the functions to run at the end of a watch that outlives its handler; nil for other requests, which end with their handler.
func laterOf(c echo.Context) *handlers.Later {
	if info := requestInfo(c); info == nil || info.Verb != "watch" {
		return nil
	}
	return handlers.LaterOf(c.Request().Context())
}

// setContext sets the context of a request, unless the request has it already.
func setContext(c echo.Context, ctx context.Context) {
	if r := c.Request(); ctx != r.Context() {
		c.SetRequest(r.WithContext(ctx))
	}
}

// refresh loads the definitions of types that this server has written or read. If the store does not answer, the request is served with the types
// known so far.
func (s *Server) refresh(ctx context.Context) {
	if s.Definitions != nil {
		_ = s.Definitions.Refresh(ctx)
	}
}

// withLatestTypes wraps the handlers that list the served types (discovery, OpenAPI), so that their response includes types defined through any
// server.
func (s *Server) withLatestTypes(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.Definitions != nil {
			_ = s.Definitions.Latest(c.Request().Context())
		}
		return next(c)
	}
}

// uriEscaper prevents a browser from taking a response for an HTML page.
var uriEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func requestInfo(c echo.Context) *genericapirequest.RequestInfo {
	info, _ := genericapirequest.RequestInfoFrom(c.Request().Context())
	return info
}

func (s *Server) withRecovery(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			p, later, r := recover(), laterOf(c), c.Request()
			if p == nil {
				if later != nil {
					method, path := r.Method, r.URL.Path
					later.Do(func(cause any) {
						if cause != nil {
							s.panicked(method, path, cause)
						}
					})
				}
				return
			}
			if cause, ok := p.(error); ok && errors.Is(cause, http.ErrAbortHandler) {
				epmetrics.RecordRequestAbort(r, requestInfo(c))
				panic(p) // net/http cuts the connection, as the handler intended
			}
			s.panicked(r.Method, r.URL.Path, p)
			later.Break()
			err = apierrors.NewInternalError(fmt.Errorf("apiserver panic'd on %s %s", r.Method, r.RequestURI))
		}()
		return next(c)
	}
}

func (s *Server) panicked(method, path string, cause any) {
	s.metrics.panics.Inc()
	s.Logger.Error("panic", "method", method, "path", path, "panic", cause, "stack", string(debug.Stack()))
}

func (s *Server) withWarnings(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		w := &warnings{header: c.Response().Header()}
		setContext(c, handlers.WithWarnings(requestctx.WithWarnings(c.Request().Context(), w), w))
		return next(c)
	}
}

// withUser authenticates the request and removes its credentials and identity headers: these must not reach the kubelets, pods and Services that
// requests are forwarded to.
func (s *Server) withUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if who, known := genericapirequest.UserFrom(r.Context()); known {
			setContext(c, withRequester(r.Context(), r, who))
			return next(c) // an internal request of the server
		}
		who, ok, took, err := s.authenticate(r)
		if err != nil || !ok || isAnonymous(who) {
			s.closeConnection(c)
		}
		if err == nil && !ok && (s.AllowsAnonymous == nil || !s.AllowsAnonymous(r.URL.Path)) {
			s.access.series().unknown.took(took)
			s.auditRefusal(c, unauthenticated(r))
			return status.Unauthorized()
		}
		if err != nil {
			s.access.series().invalid.took(took)
			s.Logger.Debug("authentication failed", "path", r.URL.Path, "error", err)
			s.auditRefusal(c, unauthenticated(r))
			return status.Unauthorized()
		}
		if !ok {
			who = anonymous
		}
		s.access.authenticated(who.GetName(), took)
		r.Header.Del("Authorization")
		for _, claims := range s.remotes {
			headerrequest.ClearAuthenticationHeaders(r.Header, claims.users, claims.uids, claims.groups, claims.extras)
		}
		setContext(c, withRequester(requestctx.WithUser(r.Context(), who), r, who))
		return next(c)
	}
}

// withRequester stores the user and the agent of a write in its context, for the author of its changes (resources.Author).
func withRequester(ctx context.Context, r *http.Request, who user.Info) context.Context {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return ctx
	}
	return resources.WithRequester(ctx, who, r.UserAgent())
}

// usualRemotes are the default headers in which a front proxy passes on the user. Authenticator has already evaluated those that can be trusted.
var usualRemotes = RemoteHeaders{
	Users:  headerrequest.StaticStringSlice{"X-Remote-User"},
	UIDs:   headerrequest.StaticStringSlice{"X-Remote-Uid"},
	Groups: headerrequest.StaticStringSlice{"X-Remote-Group"},
	Extras: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
}

// RemoteHeaders are further headers in which servers that extend the API receive the user (--requestheader-*-headers). They are removed from
// requests of clients.
type RemoteHeaders struct {
	Users, UIDs, Groups, Extras headerrequest.StaticStringSlice
}

// remoteClaims are RemoteHeaders in upstream's types.
type remoteClaims struct {
	users, uids, groups, extras headerrequest.StringSliceProvider
}

func (h RemoteHeaders) claims() remoteClaims {
	return remoteClaims{h.Users, h.UIDs, h.Groups, h.Extras}
}

// closeConnection ends the HTTP/2 connection of an anonymous client after this request, as kube-apiserver does: many streams of an anonymous client
// would cost too much (CVE-2023-44487).
func (s *Server) closeConnection(c echo.Context) {
	if c.Request().ProtoMajor == 2 && s.Features.Enabled(features.UnauthenticatedHTTP2DOSMitigation) {
		c.Response().Header().Set("Connection", "close")
	}
}

// isAnonymous is upstream's isAnonymousUser: an authenticator may name the anonymous user, too.
func isAnonymous(who user.Info) bool {
	return who.GetName() == user.Anonymous || slices.Contains(who.GetGroups(), user.AllUnauthenticated)
}

var anonymous user.Info = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// withAuthorization authorizes reads and writes alike; see resources.Pipeline.
func (s *Server) withAuthorization(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, err := s.authorize(c.Request().Context())
		if cause := undecided(err); cause != "" {
			internalError(c, errors.New(cause))
			return nil
		}
		if err != nil {
			noSniffing(c)
			return err
		}
		requestctx.Allow(ctx)
		setContext(c, ctx)
		return next(c)
	}
}

// undecided returns the cause when authorization itself failed, which kube-apiserver reports in plain text and not as a Status; "" otherwise.
func undecided(err error) string {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || s.Status().Reason != metav1.StatusReasonInternalError || s.Status().Details == nil {
		return ""
	}
	for _, c := range s.Status().Details.Causes {
		return c.Message
	}
	return ""
}

// noSniffing sets the header that kube-apiserver sends with responses from early in the chain, which may echo input of the client.
func noSniffing(c echo.Context) { c.Response().Header().Set("X-Content-Type-Options", "nosniff") }

// withAnyMethod routes a method that the router does not know to the handler for all other methods of the path: each handler rejects methods
// itself. It also routes escaped paths that the router knows only in their unescaped form.
func (s *Server) withAnyMethod(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		path, err := echo.GetPath(c.Request()), next(c)
		if means := c.Request().URL.Path; errors.Is(err, echo.ErrNotFound) && path != means {
			path = means
			s.echo.Router().Find(c.Request().Method, path, c)
			err = c.Handler()(c)
		}
		if !errors.Is(err, echo.ErrMethodNotAllowed) {
			return err
		}
		c.Response().Header().Del("Allow")
		s.echo.Router().Find(http.MethodPost, path, c)
		return c.Handler()(c)
	}
}
