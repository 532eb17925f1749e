package authz_test

import (
	"context"
	"os"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
)

// reloads returns how often the server with the name of the test has read its file with a result.
func reloads(t *testing.T, status string) float64 {
	t.Helper()
	return counted(t, "apiserver_authorization_config_controller_automatic_reloads_total", "apiserver_id_hash=sha256:"+hashed(t.Name()), "status="+status)
}

// inForce tells whether metrics show a file as the one in force at the server with the name of the test.
func inForce(t *testing.T, content string) bool {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "apiserver_authorization_config_controller_last_config_info" && len(f.GetMetric()) == 1 {
			l := f.GetMetric()[0].GetLabel()
			return l[0].GetValue() == "sha256:"+hashed(t.Name()) && l[1].GetValue() == "sha256:"+hashed(content)
		}
	}
	return false
}

// While the file cannot be read, the former configuration is in force, and each attempt is counted. When the file is there again it is used, if it is
// another one.
func TestConfigurationIsLost(t *testing.T) {
	deny, allow := newHook(t, says(denies)), newHook(t, says(allows))
	former, next := configuration("v1", deny.entry("lost-deny", "Deny")), configuration("v1", allow.entry("lost-allow", "Deny"))
	file := configured(t, "v1", deny.entry("lost-deny", "Deny"))
	f := newFixture(t)
	a, err := authz.New(authz.Options{Store: f.store, Logger: servertest.Quiet, File: file, ServerID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	a.Run(ended) // it makes the metrics
	taken, failed := reloads(t, "success"), reloads(t, "failure")
	for _, c := range []struct {
		what, content         string // no content: there is no file
		successes, failures   float64
		decision, contentUsed string
	}{
		{"the file of the start", former, 0, 0, "deny it may not", former},
		{"no file", "", 0, 1, "deny it may not", former},
		{"still no file", "", 0, 2, "deny it may not", former},
		{"the same file again", former, 0, 2, "deny it may not", former},
		{"an invalid file", "kind: nonsense", 0, 3, "deny it may not", former},
		{"no file after it", "", 0, 4, "deny it may not", former},
		{"another file", next, 1, 4, "allow it may", next},
		{"no file any more", "", 1, 5, "allow it may", next},
		{"the file of the start again", former, 2, 5, "deny it may not", former},
	} {
		if c.content != "" {
			write(t, file, c.content)
		} else if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		a.Look()
		if got := decides(t, a, ann("a")); got != c.decision {
			t.Errorf("%s: %s, want %s", c.what, got, c.decision)
		}
		if successes, failures := reloads(t, "success")-taken, reloads(t, "failure")-failed; successes != c.successes || failures != c.failures {
			t.Errorf("%s: %v successes and %v failures are counted, want %v and %v", c.what, successes, failures, c.successes, c.failures)
		}
		if !inForce(t, c.contentUsed) {
			t.Errorf("%s: metrics show another file", c.what)
		}
	}
}
