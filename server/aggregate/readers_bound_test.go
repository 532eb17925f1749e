package aggregate

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"

	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// At most mostReaders reads have connections of their own at a time; when one has ended, the next one gets its connection.
func TestReadersAreBounded(t *testing.T) {
	s := newReaders(&http.Transport{TLSClientConfig: &tls.Config{}})
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "list"}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(genericapirequest.WithRequestInfo(r.Context(), info))
	take := func(want http.RoundTripper) func() {
		t.Helper()
		by, done := s.of(r)
		if by != want {
			t.Error("it goes over the wrong connections")
		}
		return done
	}
	var done func()
	for range mostReaders {
		done = take(s.reads)
	}
	take(s.others)()
	done()
	take(s.reads)
	info.Verb = "watch"
	done()
	take(s.others)()
}
