package server_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authz"
)

// Authentication, authorization and impersonation are counted under kube-apiserver's names.
func TestAccessIsCounted(t *testing.T) {
	s, _ := guardedBy(t, authz.Options{Modes: []string{"Node", "RBAC"}}, func(c *server.Config) {
		by := c.Authenticator
		c.Authenticator = func(r *http.Request) (user.Info, bool, error) {
			if r.Header.Get("Authorization") == "bad" {
				return nil, false, http.ErrNoCookie
			}
			return by(r)
		}
		c.AllowsAnonymous = func(path string) bool { return path != "/closed" }
	})
	h := s.Handler()
	before := series(t, h)
	for _, r := range [][]string{{"admin,system:masters", "/api"}, {"jane@example.com", "/api"}, {"jane", "/api"}, {"", "/healthz"},
		{"jane", "/api/v1/secrets"}, {"bad", "/api"}, {"", "/closed"}} {
		send(h, r[0], "GET", r[1], "")
	}
	send(h, "admin,system:masters", "GET", "/api", "", "Impersonate-User", "jane")
	send(h, "jane", "GET", "/api", "", "Impersonate-User", "admin")
	after := series(t, h)
	for name, want := range map[string]float64{
		`authenticated_user_requests{username="admin"}`:                                                          3, // with this scrape
		`authenticated_user_requests{username="email_id"}`:                                                       1,
		`authenticated_user_requests{username="other"}`:                                                          4,
		`authentication_attempts{result="success"}`:                                                              8,
		`authentication_attempts{result="failure"}`:                                                              1,
		`authentication_attempts{result="error"}`:                                                                1,
		`authentication_duration_seconds_count{result="success"}`:                                                8,
		`authorization_attempts_total{result="allowed"}`:                                                         6,
		`apiserver_request_filter_duration_seconds_count{filter="authentication"}`:                               10,
		`apiserver_request_filter_duration_seconds_count{filter="audit"}`:                                        8, // of users
		`apiserver_request_filter_duration_seconds_count{filter="constrainedimpersonation"}`:                     7, // not the rejected ones
		`apiserver_request_filter_duration_seconds_count{filter="priorityandfairness"}`:                          7,
		`apiserver_request_filter_duration_seconds_count{filter="authorization"}`:                                6, // nor the forbidden ones
		`authorization_attempts_total{result="no-opinion"}`:                                                      1,
		`authorization_attempts_total{result="denied"}`:                                                          0,
		`authorization_attempts_total{result="error"}`:                                                           0,
		`authorization_duration_seconds_count{result="no-opinion"}`:                                              1,
		`apiserver_impersonation_attempts_total{decision="allowed",mode="user-info"}`:                            1,
		`apiserver_impersonation_attempts_total{decision="denied",mode=""}`:                                      1,
		`apiserver_impersonation_attempts_duration_seconds_count{decision="denied",mode=""}`:                     1,
		`apiserver_impersonation_authorization_attempts_total{decision="allowed",mode="user-info"}`:              2,
		`apiserver_impersonation_authorization_attempts_total{decision="denied",mode="user-info"}`:               1,
		`apiserver_impersonation_authorization_attempts_duration_seconds_count{decision="denied",mode="legacy"}`: 1,
	} {
		if got := after[name] - before[name]; got != want {
			t.Errorf("%s went up by %v, not %v", name, got, want)
		}
	}
}

// A request for another user's token is no impersonation.
func TestTokensAreNoImpersonations(t *testing.T) {
	h := guarded(t, "RBAC")
	before := series(t, h)
	must(t, h, admin, "POST", server.TokensPath, `{"user":"jane","groups":["team"],"seconds":60}`)
	send(h, "nobody", "POST", server.TokensPath, `{"user":"jane","seconds":60}`)
	for name, n := range series(t, h) {
		if strings.HasPrefix(name, "apiserver_impersonation_") && n != before[name] {
			t.Errorf("%s went up by %v", name, n-before[name])
		}
	}
}

// series returns the series at /metrics, read as an administrator.
func series(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	code, body := send(h, "admin,system:masters", "GET", "/metrics", "")
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	all := map[string]float64{}
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			all[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return all
}
