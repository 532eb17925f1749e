package authn

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Some changes of the file are applied, some are rejected, and some are retried; each result is counted.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	write := func(rest string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"+rest), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("anonymous: {enabled: true, conditions: [{path: /livez}]}\n")
	r, err := NewRemote(t.Context(), RemoteOptions{ConfigFile: file, ServerID: t.Name(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	updates, wrong := 0, errors.New("the issuer cannot be made")
	var fails error
	r.update = func(context.Context, *apiserver.AuthenticationConfiguration) error {
		updates++
		return fails
	}
	reload := func(what, want string, calls int) {
		t.Helper()
		updates = 0
		err := r.reload(t.Context())
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if updates != calls {
			t.Errorf("%s: taken up %d times", what, updates)
		}
	}
	reload("as it was", "", 0)
	write("anonymous: {enabled: true}\n")
	reload("another rule for anonymous requests", "anonymous: Forbidden: changed from initial configuration file", 0)
	reload("the same again", "", 0)
	if allowed, _ := r.Anonymous("/api"); allowed {
		t.Error("anonymous requests are let in by a file that was refused")
	}
	write("anonymous: {enabled: true, conditions: [{path: /livez}]}\nunknown: x\n")
	reload("nonsense", "unknown field", 0)
	reload("the same nonsense", "", 0)
	fails = wrong
	write("anonymous: {enabled: true, conditions: [{path: /livez}]}\njwt: []\n")
	reload("an issuer that cannot be made", wrong.Error(), 1)
	fails = nil
	reload("an issuer that can be made later", "", 1)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	reload("no file", "no such file", 0)
	if got := counted(t, "success"); got != 1 {
		t.Errorf("counted %v successes", got)
	}
	if got := counted(t, "failure"); got != 4 {
		t.Errorf("counted %v failures", got)
	}
}

// counted returns how often reading the file again had a result.
func counted(t *testing.T, result string) (n float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "apiserver_authentication_config_controller_automatic_reloads_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["status"] == result && labels["apiserver_id_hash"] == fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(t.Name()))) {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}
