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

// counted is an answer that counts how often it is written.
type counted struct {
	*httptest.ResponseRecorder
	writes int
}

func (w *counted) Write(p []byte) (int, error) {
	w.writes++
	return w.ResponseRecorder.Write(p)
}

// gathering is what answers over HTTP/2 by server/h2: it gathers what is written.
type gathering struct{ counted }

func (w *gathering) Gathers() {}

// wrapped is what a middleware makes of an answer.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A list is not copied into a buffer before what answers copies it into its own, and is the same list.
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

// told is an answer that ends the request when the state has been told.
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

// The events of a watch are not copied into a buffer before what answers copies them into its own, and are the same.
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
