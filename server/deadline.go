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
		defer c.SetRequest(whole) // whose context still tells whether the client is there
		until, _ := ctx.Deadline()
		err := next(c)
		// By the clock: net/http cancels the request when the limit of reading its body is reached, which is the same.
		if err != nil && !time.Now().Before(until) && !c.Response().Committed {
			epmetrics.RecordRequestTermination(c.Request(), requestInfo(c), epmetrics.APIServerComponent, http.StatusGatewayTimeout)
			return timeIsOver(c)
		}
		return err
	}
}

// withTimeLeft refuses what is too late already. What takes no time, such as /version, would be answered all the same.
func withTimeLeft(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if strings.Contains(r.URL.RawQuery, "timeout=") && !longRunning(requestInfo(c)) {
			if until, limited := r.Context().Deadline(); limited && !time.Now().Before(until) {
				return context.DeadlineExceeded
			}
		}
		return next(c)
	}
}

// timeIsOver is the answer when a request's time is. As with kube-apiserver, it has nothing of the answer that the request would have had,
// its headers neither.
func timeIsOver(c echo.Context) error {
	h := c.Response().Header()
	maps.DeleteFunc(h, func(name string, _ []string) bool { return !slices.Contains(untimed, name) })
	h["Content-Length"] = []string{strconv.Itoa(len(timedOut))} // it is flushed before it is whole
	return c.Blob(http.StatusGatewayTimeout, "text/plain; charset=utf-8", timedOut)
}

// untimed are the headers that are there before the time of a request begins.
var untimed = []string{"Audit-Id", "Cache-Control", "Strict-Transport-Security", "Connection"}

// timedOut is the answer when a request's time is over. kube-apiserver's is a Status without a kind, and calls it text.
var timedOut = []byte(`{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout",` +
	`"reason":"Timeout","details":{},"code":504}` + "\n")

func parseTimeout(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	return time.ParseDuration(s)
}

// longRunning requests are streams: they are not bounded in time and do not count as under way.
func longRunning(info *genericapirequest.RequestInfo) bool {
	if !info.IsResourceRequest {
		return strings.HasPrefix(info.Path, "/debug/pprof/") // profiles take as long as they are asked to
	}
	switch info.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return info.Verb == "watch" || info.Verb == "proxy"
}
