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

// chain is what every request passes through, from the outside in. It is put together once, and not for each request, as the router
// would: at its end is what the router has found for the request.
func (s *Server) chain() echo.MiddlewareFunc {
	whole := echo.HandlerFunc(func(c echo.Context) error { return c.Handler()(c) })
	for _, pass := range slices.Backward(s.passes()) {
		whole = pass(whole)
	}
	return func(echo.HandlerFunc) echo.HandlerFunc { return whole }
}

func (s *Server) passes() []echo.MiddlewareFunc {
	outer, inner := s.optional()
	return slices.Concat([]echo.MiddlewareFunc{
		s.withAuditID,     // a name for the request
		s.withAuditEnd,    // what became of it is recorded
		s.withRequestInfo, // what it is about
		s.withMetrics,     // counts it, whatever becomes of it
		s.withRecovery,    // a panic is a 500 for this request alone
	}, outer, []echo.MiddlewareFunc{
		s.withDeadline, // everything but a watch ends in time
		s.withWarnings, // Warning headers
	}, inner, []echo.MiddlewareFunc{
		s.withUser,          // who sent it: 401
		s.withAudit,         // that it came is recorded
		s.withImpersonation, // as whom it is to be answered
		s.withFlow,          // not too many at once: 429
		s.withAuthorization, // whether they may do this: 403
		s.withAnyMethod,     // one that the router does not know
		withTimeLeft,        // nothing is begun that is too late: 504
	})
}

func (s *Server) withAuditID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Request().Header.Get("Audit-Id")
		if id == "" {
			id = uuid.NewString()
		}
		h := c.Response().Header()
		h["Audit-Id"] = []string{id}
		h["Cache-Control"] = noCache
		return next(c)
	}
}

// noCache keeps answers to authenticated clients out of shared caches (RFC 9111, 5.2.2).
var noCache = []string{"no-cache, private"}

func (s *Server) withRequestInfo(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		info, err := s.info.NewRequestInfo(r)
		if err != nil {
			// kube-apiserver's words, which are no Status, from before it thinks of caches.
			c.Response().Header().Del("Cache-Control")
			internalError(c, fmt.Errorf("failed to create RequestInfo: %w", err))
			return nil
		}
		ctx := r.Context()
		if s.Audit == nil { // else it was made for that
			ctx = requestctx.New(ctx)
		}
		ctx = requestctx.WithRequestInfo(ctx, info)
		s.refresh(ctx)
		if info.Verb == "watch" {
			ctx = handlers.WithLater(ctx, &handlers.Later{Began: time.Now()})
		} else { // a watch takes as long as it is meant to
			ctx = requestctx.WithLatencyTrackers(ctx)
		}
		if info.IsResourceRequest {
			ctx = resources.WithCatalog(ctx, s.Registry.Catalog()) // the one that answers all of the request
		}
		setContext(c, ctx)
		return next(c)
	}
}

// laterOf is what is to be done when a watch has ended that goes on when its handler has returned; nil: the request is over then.
func laterOf(c echo.Context) *handlers.Later {
	if info := requestInfo(c); info == nil || info.Verb != "watch" {
		return nil
	}
	return handlers.LaterOf(c.Request().Context())
}

// setContext gives a request a context, unless it has that.
func setContext(c echo.Context, ctx context.Context) {
	if r := c.Request(); ctx != r.Context() {
		c.SetRequest(r.WithContext(ctx))
	}
}

// refresh takes up types that were defined by what this server has written or read. When the store does not answer, the request
// is answered by those that are known.
func (s *Server) refresh(ctx context.Context) {
	if s.Definitions != nil {
		_ = s.Definitions.Refresh(ctx)
	}
}

// withLatestTypes comes before what tells which types there are: it tells of all that were defined, by whatever server.
func (s *Server) withLatestTypes(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.Definitions != nil {
			_ = s.Definitions.Latest(c.Request().Context())
		}
		return next(c)
	}
}

// uriEscaper keeps what a browser could take for a page out of an answer.
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
				panic(p) // net/http cuts the connection, which is what was wanted
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

// withUser finds out who asks. From there on the request tells it to nobody else: what proves or claims an identity must not
// reach the kubelets, pods and Services that requests are passed on to.
func (s *Server) withUser(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if who, known := genericapirequest.UserFrom(r.Context()); known {
			setContext(c, withRequester(r.Context(), r, who))
			return next(c) // the server itself
		}
		who, ok, took, err := s.authenticate(r)
		if err != nil || !ok {
			s.closeConnection(c)
		}
		if err == nil && !ok && (s.AllowsAnonymous == nil || !s.AllowsAnonymous(r.URL.Path)) {
			s.access.unknown.took(took)
			s.auditRefusal(c, unauthenticated(r))
			return status.Unauthorized()
		}
		if err != nil {
			s.access.invalid.took(took)
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

// withRequester keeps with a request that may write who has sent it, for what is said of its changes (resources.Author).
func withRequester(ctx context.Context, r *http.Request, who user.Info) context.Context {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return ctx
	}
	return resources.WithRequester(ctx, who, r.UserAgent())
}

// usualRemotes are the headers by which a front proxy says who asks, under their usual names. What is to be believed of them, Authenticator
// has read.
var usualRemotes = RemoteHeaders{
	Users:  headerrequest.StaticStringSlice{"X-Remote-User"},
	UIDs:   headerrequest.StaticStringSlice{"X-Remote-Uid"},
	Groups: headerrequest.StaticStringSlice{"X-Remote-Group"},
	Extras: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
}

// RemoteHeaders are further headers by which servers that extend the API are told who asks (--requestheader-*-headers). No client may
// send one through this server.
type RemoteHeaders struct {
	Users, UIDs, Groups, Extras headerrequest.StaticStringSlice
}

// remoteClaims are such headers as upstream takes them.
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

var anonymous user.Info = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// withAuthorization asks whether the user may do what is asked, reads and writes alike; see resources.Pipeline.
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

// undecided is what was wrong where nobody could tell whether something may be done, of which kube-apiserver makes no Status; "": that is known.
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

// noSniffing is on what kube-apiserver answers before a request is looked at any further, which shows what clients have sent.
func noSniffing(c echo.Context) { c.Response().Header().Set("X-Content-Type-Options", "nosniff") }

// withAnyMethod takes methods that the router does not know where it takes all others: every path says itself what it
// refuses. It likewise takes paths with escapes that the router does not know by how they are written, and may know by what they mean.
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
