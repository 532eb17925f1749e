package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

// deadlined is a writer that remembers its deadline.
type deadlined struct {
	http.ResponseWriter
	at time.Time
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.at = at
	return nil
}

// Over HTTP/1.1 a request's deadline must not apply to the next request of its connection. Over HTTP/2 it applies to the stream alone, whose response
// may be sent when the handler has returned.
func TestDeadlinesOfRequests(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	until, _ := ctx.Deadline()
	for protocol, want := range map[int]time.Time{1: {}, 2: until.Add(lastWords)} {
		r := httptest.NewRequest("GET", "/", nil)
		r.ProtoMajor = protocol
		w := &deadlined{ResponseWriter: httptest.NewRecorder()}
		stop := cutOff(ctx, r, echo.NewResponse(w, echo.New()))
		if !w.at.Equal(until.Add(lastWords)) {
			t.Errorf("HTTP/%d: the deadline is %v", protocol, w.at)
		}
		if stop(); !w.at.Equal(want) {
			t.Errorf("HTTP/%d: the deadline is %v after the request, want %v", protocol, w.at, want)
		}
	}
}
