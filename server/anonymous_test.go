package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server"
)

// The HTTP/2 connection of an anonymous client ends after its request, also if an authenticator names that user, and that of an authenticated client does not (CVE-2023-44487).
func TestAnonymousConnectionsEnd(t *testing.T) {
	h := newServer(t, func(c *server.Config) {
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			name, group, _ := strings.Cut(r.Header.Get("Known"), "/")
			return &user.DefaultInfo{Name: name, Groups: []string{group}}, name != "", nil
		}
	}).Handler()
	for _, c := range []struct {
		path, known string
		major       int
		want        string
	}{
		{"/healthz", "", 2, "close"}, {"/api/v1/pods", "", 2, "close"}, {"/healthz", "", 1, ""}, {"/api/v1/pods", "yes", 2, ""},
		{"/api/v1/pods", "system:anonymous", 2, "close"}, {"/api/v1/pods", "yes/system:unauthenticated", 2, "close"}, {"/api/v1/pods", "system:anonymous", 1, ""},
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
