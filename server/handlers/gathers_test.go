package handlers_test

import (
	"bytes"
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
