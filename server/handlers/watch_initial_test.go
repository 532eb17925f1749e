package handlers_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// endedByWrite is the answer to a request that ends as soon as something of it was sent.
type endedByWrite struct {
	*httptest.ResponseRecorder
	end func()
}

func (w endedByWrite) Write(p []byte) (int, error) {
	w.end()
	return w.ResponseRecorder.Write(p)
}

// "Streaming lists": a watch whose time is over while it sends the state does not say that this was all of it. A client would
// forget the rest.
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
