package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	epmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/requestctx"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/status"
)

// withDeadline bounds a request by ?timeout= and by the server's own limit. A watch bounds itself.
func (s *Server) withDeadline(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if longRunning(requestInfo(c)) {
			return next(c)
		}
		timeout := s.RequestTimeout
		if strings.Contains(c.Request().URL.RawQuery, "timeout=") {
			wanted, err := parseTimeout(c.QueryParam("timeout"))
			if err != nil {
				refused := apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
				s.auditRefusal(c, refused.Error())
				return refused
			}
			if wanted > 0 {
				timeout = min(timeout, wanted)
			}
		}
		whole := c.Request()
		ctx, end := requestctx.Limit(whole.Context(), timeout)
		defer end()
		defer cutOff(ctx, whole, c.Response())()
		setContext(c, ctx)
		defer c.SetRequest(whole) // whole's context still tells whether the client is connected
		until, _ := ctx.Deadline()
		begun := false // the response
		defer func() {
			if ctx.Err() != nil {
				s.countEnded(whole, requestInfo(c), begun)
			}
		}()
		err := next(c)
		begun = c.Response().Committed
		// Compare the clock, too: net/http cancels the request when the read deadline of the body has passed, which is the same moment.
		if err != nil && !time.Now().Before(until) && !begun {
			auditing.Of(ctx).AnsweredStatus(status.Of(status.ForRequest(context.DeadlineExceeded, resourceOf(c), "", ""))) // of the handler, as in kube-apiserver
			return timeIsOver(c)
		}
		return err
	}
}

// countEnded counts a request whose deadline passed, or whose client went away, before its handler returned. As in kube-apiserver, it is terminated,
// and aborted as well if its response had begun. A handler that panics to abort the response has not returned; withRecovery counts that one.
func (s *Server) countEnded(r *http.Request, info *genericapirequest.RequestInfo, begun bool) {
	info = s.countedAs(r, info)
	epmetrics.RecordRequestTermination(r, info, epmetrics.APIServerComponent, http.StatusGatewayTimeout)
	if begun {
		epmetrics.RecordRequestAbort(r, info)
	}
}

// withTimeLeft rejects a request whose deadline has passed already. Otherwise requests that take no time, such as /version, would still succeed.
func withTimeLeft(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if strings.Contains(r.URL.RawQuery, "timeout=") && !longRunning(requestInfo(c)) {
			if requestctx.Late(r.Context()) {
				return context.DeadlineExceeded
			}
		}
		return next(c)
	}
}

// timeIsOver answers a request whose deadline has passed. As with kube-apiserver, nothing remains of the original response, not even its headers.
func timeIsOver(c echo.Context) error {
	h := c.Response().Header()
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !slices.Contains(untimed, name) })
	h["Content-Length"] = []string{strconv.Itoa(len(timedOut))} // needed because the response is flushed before it is complete
	return c.Blob(http.StatusGatewayTimeout, "text/plain; charset=utf-8", timedOut)
}

// untimed are the headers that are set before the deadline of a request starts.
var untimed = []string{"Audit-Id", "Cache-Control", "Strict-Transport-Security", "Connection"}

// timedOut is the body for a request whose deadline has passed. As in kube-apiserver, it is a Status without a kind, sent as text/plain.
var timedOut = []byte(`{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",` +
	`"reason":"Timeout","details":{},"code":504}` + "\n")

func parseTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	return time.ParseDuration(s)
}

// longRunning tells whether a request is a stream: such requests have no deadline and do not count as in flight.
func longRunning(info *genericapirequest.RequestInfo) bool {
	if !info.IsResourceRequest {
		return strings.HasPrefix(info.Path, "/debug/pprof/") // profiles run for the requested time
	}
	switch info.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return info.Verb == "watch" || info.Verb == "proxy"
}
