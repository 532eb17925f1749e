package server_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/authz"
)

// The paths about the server itself are open to users with RBAC rules for them, path by path.
func TestPathsOfTheServer(t *testing.T) {
	s, _ := guardedBy(t, authz.Options{Modes: []string{"RBAC"}}, func(c *server.Config) {
		c.Flags = map[string]string{"a": "b"}
		c.SetVerbosity = func(v string) (string, error) {
			if v != "4" {
				return "", errors.New("not " + v)
			}
			return "set to " + v, nil
		}
	})
	h := s.Handler()
	paths := []string{"/metrics", "/metrics/slis", "/statusz", "/flagz", "/debug/pprof/", "/debug/pprof/symbol", "/debug/flags/",
		"/debug/api_priority_and_fairness/dump_priority_levels", "/debug/api_priority_and_fairness/dump_queues", "/debug/api_priority_and_fairness/dump_requests"}
	allowed := func(who string) (found []string) {
		t.Helper()
		for _, path := range paths {
			switch code, answer := send(h, who, http.MethodGet, path, ""); code {
			case 200:
				found = append(found, path)
			case 403:
			default:
				t.Errorf("%s of %q: %d %s", path, who, code, answer)
			}
		}
		return found
	}
	for _, user := range []string{"", "jane"} {
		if found := allowed(user); len(found) > 0 {
			t.Errorf("%q may see %q", user, found)
		}
	}
	if found := allowed(admin); len(found) != len(paths) {
		t.Errorf("an administrator sees %q", found)
	}
	for i, path := range paths {
		who := string(rune('a' + i))
		must(t, h, admin, "POST", rbacPath+"clusterroles", role("ClusterRole", "see-"+who, `{"verbs":["get"],"nonResourceURLs":["`+path+`"]}`))
		must(t, h, admin, "POST", rbacPath+"clusterrolebindings", bindingOf("ClusterRoleBinding", "see-"+who, "ClusterRole", "see-"+who, who))
		if found := allowed(who); len(found) != 1 || found[0] != path {
			t.Errorf("who may see %s sees %q", path, found)
		}
	}
	if code, _ := send(h, "jane", "PUT", "/debug/flags/v", "4"); code != 403 {
		t.Errorf("anybody may set the verbosity: %d", code)
	}
	for _, c := range []struct {
		method, body string
		code         int
		want         string
	}{{"PUT", "4", 200, "set to 4"}, {"PUT", "many", 400, "not many"}, {"GET", "", 406, "unsupported http method"}} {
		if code, answer := send(h, admin, c.method, "/debug/flags/v", c.body); code != c.code || answer != c.want {
			t.Errorf("%s %s: %d %q", c.method, c.body, code, answer)
		}
	}
}

// A server without profiling has no profiling paths.
func TestWithoutProfiling(t *testing.T) {
	h := newServer(t, func(c *server.Config) { c.WithoutProfiling = true }).Handler()
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/flags/v"} {
		if code := get(h, path, "master").Code; code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}
