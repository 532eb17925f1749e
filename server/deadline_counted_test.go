package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
)

// leaving is a client that goes away when the first byte of the response reaches it.
type leaving struct {
	*httptest.ResponseRecorder
	leave func()
}

func (w *leaving) Write([]byte) (int, error) {
	w.leave()
	return 0, errors.New("the client has gone")
}

// As with kube-apiserver, a request that its client or its deadline ends is counted as terminated, and as aborted if the response had begun.
// A request that is answered is counted as neither.
func TestEndedRequestsAreCounted(t *testing.T) {
	var pipeline *resources.Pipeline
	h := newServer(t, func(c *server.Config) { pipeline = c.Pipeline }).Handler()
	pipeline.Use(slowAdmission{}, nil)
	const list = `group="",resource="configmaps",scope="namespace",subresource="",verb="LIST",version="v1"}`
	const post = `group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"}`
	terminations, aborts := `apiserver_request_terminations_total{code="504",component="apiserver",`, "apiserver_request_aborts_total{"
	for _, tc := range []struct {
		name, method, query, body string
		leave                     func(cancel func())
		before                    bool // the client leaves before the response
		labels                    string
		terminated, aborted       float64
	}{
		{"a client that leaves before the response", "POST", "", `{"metadata":{"name":"slow"}}`, nil, true, post, 1, 0},
		{"a client that leaves during the response", "GET", "", "", func(cancel func()) { cancel() }, false, list, 1, 1},
		{"a deadline during the response", "GET", "?timeout=2s", "", func(func()) { time.Sleep(2200 * time.Millisecond) }, false, list, 1, 1},
		{"no end", "GET", "", "", func(func()) {}, false, list, 0, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequest(tc.method, "/api/v1/namespaces/default/configmaps"+tc.query, strings.NewReader(tc.body)).WithContext(ctx)
		r.Header.Set("Authorization", "master")
		w := http.ResponseWriter(httptest.NewRecorder())
		if tc.leave != nil {
			w = &leaving{httptest.NewRecorder(), func() { tc.leave(cancel) }}
		}
		counted := func(name string) (n float64) {
			for line := range strings.Lines(get(h, "/metrics", "master").Body.String()) {
				if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
					n, _ = strconv.ParseFloat(value, 64)
				}
			}
			return n
		}
		terminated, aborted := counted(terminations+tc.labels), counted(aborts+tc.labels)
		if tc.before {
			cancel()
		}
		func() {
			defer func() {
				if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares so
					t.Errorf("%s: panics with %v", tc.name, p)
				}
			}()
			h.ServeHTTP(w, r)
		}()
		cancel()
		terminated, aborted = counted(terminations+tc.labels)-terminated, counted(aborts+tc.labels)-aborted
		if terminated != tc.terminated || aborted != tc.aborted {
			t.Errorf("%s: counted as terminated %v times and as aborted %v times, want %v and %v", tc.name, terminated, aborted, tc.terminated, tc.aborted)
		}
	}
}
