package record

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// TestServerEnds checks that the history of a round is there, up to its last known change, when the server ends and the last write fails.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	const writes = 3
	var revision atomic.Int64
	revision.Store(10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/api/v1/namespaces":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"kind":"Namespace","metadata":{"name":"n","resourceVersion":"10"}}`)
		case r.URL.Query().Get("watch") == "true":
			fmt.Fprintf(w, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}`+"\n", revision.Load())
		case r.Method == http.MethodGet && revision.Load() == 10 && !strings.HasSuffix(r.URL.Path, "/configmaps"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","code":404}`)
		case r.Method == http.MethodGet && revision.Load() == 10:
			fmt.Fprint(w, `{"kind":"List","metadata":{"resourceVersion":"10"}}`)
		case revision.Add(1) < 10+writes:
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"kind":"Status","code":500}`)
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	target := Target{URL: server.URL, Client: server.Client(), Watches: server.Client()}
	h, err := Round(context.Background(), Options{Targets: []Target{target}, Namespace: "n", Seed: 1, Duration: 200 * time.Millisecond, Clients: 2, Watchers: 2, Names: 2,
		Patience: time.Second, EndWithin: 200 * time.Millisecond})
	if err == nil || h == nil || !h.Cut || len(h.Operations) == 0 {
		t.Fatalf("error %v, history %+v", err, h)
	}
	if found := history.Check(h); len(found) > 0 {
		t.Errorf("%d violations; the first: %v", len(found), found[0])
	}
}
