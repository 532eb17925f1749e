package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/handlers"
	"github.com/rowlock/rowlock/server/status"
)

// writeError answers a request that failed, unless its response has begun.
func (s *Server) writeError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	var route *echo.HTTPError
	if errors.Is(err, handlers.ErrNoSuchGroup) || errors.As(err, &route) {
		http.NotFound(c.Response(), c.Request())
		return
	}
	st := status.Of(status.ForRequest(err, resourceOf(c), nameOf(c), verbOf(c)))
	if st.Code >= http.StatusInternalServerError && st.Reason == "" {
		level := slog.LevelError
		var theirs *status.OfRequest
		switch {
		case c.Request().Context().Err() != nil:
			level = slog.LevelDebug // the client has gone, which most likely caused the error
		case errors.As(err, &theirs):
			level = slog.LevelInfo
		}
		why := err.Error()
		if resourceOf(c) == (schema.GroupResource{Resource: "secrets"}) {
			why = auditing.WithoutContents(st).Message
		}
		s.Logger.Log(context.Background(), level, "request failed", "method", c.Request().Method, "path", c.Request().URL.Path, "error", why)
	}
	s.writeStatus(c, st)
}

// writeStatus writes a Status in a format that the client accepts, JSON if it accepts none.
func (s *Server) writeStatus(c echo.Context, st *metav1.Status) {
	f := s.offer.NegotiateStatus(c.Request())
	if !f.Unaccepted {
		auditing.Of(c.Request().Context()).AnsweredStatus(st)
	}
	sendStatus(c.Response(), c.Request(), s.offer, st, f)
}

// sendStatus writes a Status in a format of an offer.
func sendStatus(w http.ResponseWriter, r *http.Request, offer *codec.Offer, st *metav1.Status, f codec.Format) {
	data, err := codec.Value(st, f)
	if err != nil {
		http.Error(w, st.Message, int(st.Code))
		return
	}
	h := w.Header()
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	h.Set("Content-Type", f.Media)
	handlers.WriteBody(w, r, offer, int(st.Code), data)
}
