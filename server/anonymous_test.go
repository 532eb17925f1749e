package server_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server"
)

// The HTTP/2 connection of an anonymous client ends after its request, and that of an authenticated client does not (CVE-2023-44487).
func TestAnonymousConnectionsEnd(t *testing.T) {
	h := newServer(t, func(c *server.Config) {
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			return &user.DefaultInfo{Name: "known"}, r.Header.Get("Known") != "", nil
		}
	}).Handler()
	for _, c := range []struct {
		path, known string
		major       int
		want        string
	}{
		{"/healthz", "", 2, "close"}, {"/api/v1/pods", "", 2, "close"}, {"/healthz", "", 1, ""}, {"/api/v1/pods", "yes", 2, ""},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.ProtoMajor = c.major
		if c.known != "" {
			r.Header.Set("Known", c.known)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Connection"); got != c.want {
			t.Errorf("%+v: Connection is %q", c, got)
		}
	}
}
