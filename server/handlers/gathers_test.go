package handlers_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// counted is a response that counts its writes.
type counted struct {
	*httptest.ResponseRecorder
	writes int
}

func (w *counted) Write(p []byte) (int, error) {
	w.writes++
	return w.ResponseRecorder.Write(p)
}

// gathering is a ResponseWriter that buffers, as server/h2's does.
type gathering struct{ counted }

func (w *gathering) Gathers() {}

// wrapped is a ResponseWriter as middleware wraps it.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A list is not buffered before a ResponseWriter that buffers, and has the same bytes.
func TestListsAreGatheredOnce(t *testing.T) {
	const objects = 40
	a := newAPI(t)
	for i := range objects {
		a.put(fmt.Sprint("c", i), strings.Repeat("x", 2<<10))
	}
	for _, accept := range listTypes {
		for _, encoding := range []string{"", "gzip"} {
			q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, configMaps, http.NoBody)
			q.Header.Set("Accept", accept)
			q.Header.Set("Accept-Encoding", encoding)
			plain, direct := &counted{ResponseRecorder: httptest.NewRecorder()}, &gathering{counted{ResponseRecorder: httptest.NewRecorder()}}
			a.ServeHTTP(plain, q.Clone(t.Context()))
			a.ServeHTTP(wrapped{direct}, q.Clone(t.Context()))
			if plain.Code != http.StatusOK || !bytes.Equal(plain.Body.Bytes(), direct.Body.Bytes()) {
				t.Errorf("%s %q: %d, %d bytes, where it is gathered once %d, %d bytes", accept, encoding,
					plain.Code, plain.Body.Len(), direct.Code, direct.Body.Len())
			}
			if encoding == "" && plain.writes > 1 {
				t.Errorf("%s: %d writes of an answer that does not gather", accept, plain.writes)
			}
			if encoding == "" && accept != listTypes[2] && direct.writes < objects {
				t.Errorf("%s: %d writes of an answer that gathers, less than one for each object", accept, direct.writes)
			}
		}
	}
}

// told is a response that cancels the request once the whole state has been sent.
type told struct {
	http.ResponseWriter
	end func()
}

func (w told) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("initial-events-end")) {
		w.end()
	}
	return w.ResponseWriter.Write(p)
}

func (w told) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// The events of a watch are not buffered before a ResponseWriter that buffers, and have the same bytes.
func TestEventsAreGatheredOnce(t *testing.T) {
	const objects = 10
	a := newAPI(t)
	for i := range objects {
		a.put(fmt.Sprint("c", i), strings.Repeat("x", 2<<10))
	}
	watch := func(to http.ResponseWriter) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a.ServeHTTP(told{to, cancel}, httptest.NewRequestWithContext(ctx, http.MethodGet, configMaps+
			"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", http.NoBody))
	}
	plain, direct := &counted{ResponseRecorder: httptest.NewRecorder()}, &gathering{counted{ResponseRecorder: httptest.NewRecorder()}}
	watch(plain)
	watch(direct)
	if plain.writes > 2 || direct.writes < objects {
		t.Errorf("%d writes of an answer that does not gather, %d of one that does", plain.writes, direct.writes)
	}
	if n := strings.Count(plain.Body.String(), `"type":"ADDED"`); n != objects || !bytes.Equal(plain.Body.Bytes(), direct.Body.Bytes()) {
		t.Errorf("%d events in %d bytes, where they are gathered once %d bytes", n, plain.Body.Len(), direct.Body.Len())
	}
}
