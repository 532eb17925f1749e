package handlers_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/server"
)

// endedByWrite is the response to a request that is cancelled when the first bytes are sent.
type endedByWrite struct {
	*httptest.ResponseRecorder
	end func()
}

// untilInitialEnd is the response to a watch that is cancelled when the whole state has been sent.
type untilInitialEnd struct {
	*httptest.ResponseRecorder
	end func()
}

func (w untilInitialEnd) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(w.Body.String(), "initial-events-end") {
			w.end()
		}
	}()
	return w.ResponseRecorder.Write(p)
}

func (w endedByWrite) Write(p []byte) (int, error) {
	w.end()
	return w.ResponseRecorder.Write(p)
}

// "Streaming lists": a watch that times out while it sends the state has no bookmark for its end. A client would drop the objects that it had not
// received.
func TestInitialEventsThatWereCutOff(t *testing.T) {
	a := newAPI(t)
	const maps = 8
	for i := range maps {
		a.run(exchange{do: "POST " + configMaps, code: 201,
			body: fmt.Sprintf(`{"metadata":{"name":"m%d"},"data":{"k":%q}}`, i, strings.Repeat("x", 60<<10))})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := endedByWrite{httptest.NewRecorder(), cancel}
	a.ServeHTTP(w, httptest.NewRequest("GET", configMaps+
		"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", nil).WithContext(ctx))
	body := w.Body.String()
	if n := strings.Count(body, `"type":"ADDED"`); n == 0 || n == maps {
		t.Fatalf("%d of %d objects were sent", n, maps)
	}
	if strings.Contains(body, "initial-events-end") {
		t.Error("the end of the initial events was sent")
	}
}

// The time of a conversion webhook does not count as a stall of the client, which has read everything: the watch continues. This holds for
// conversions for rendering and for selection.
func TestInitialEventsOfASlowWebhook(t *testing.T) {
	const (
		limit   = 2 * time.Second // for the client to take a frame
		objects = 257             // the last one needs a separate call
	)
	for name, query := range map[string]string{"shown": "", "selected": "&fieldSelector=metadata.name!%3Dx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, hook := newAPIWith(t, nil, func(c *server.Config) { c.WatchStall = limit }), newConverter(t)
			a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
			for i := range objects {
				a.run(exchange{do: "POST " + widgets, body: widget(fmt.Sprintf("w%03d", i), `{"one":1}`), code: 201})
			}
			hook.answers(func(_ http.ResponseWriter, review gjson.Result) bool {
				if review.Get("request.objects.#").Int() == 1 {
					time.Sleep(2 * limit)
				}
				return false
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w := untilInitialEnd{httptest.NewRecorder(), cancel}
			a.ServeHTTP(w, httptest.NewRequest("GET", widgetsAsV2+
				"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"+query, nil).WithContext(ctx))
			if n := strings.Count(w.Body.String(), `"type":"ADDED"`); n != objects {
				t.Errorf("%d of %d objects were sent", n, objects)
			}
		})
	}
}
