package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestPackagedMetrics checks that the server has each metric that alert rules and the dashboard name.
func TestPackagedMetrics(t *testing.T) {
	served := (kubectl{}).run(t, "get", "--raw", "/metrics")
	keepsBackups := startServer(t, harness.RowlockOptions{Args: []string{"--backup-dir", t.TempDir()}})
	served += (kubectl{}).run(t, "--kubeconfig", keepsBackups.Kubeconfig, "get", "--raw", "/metrics")
	named := regexp.MustCompile(`\b(?:rowlock|apiserver|process)_[a-z_]+`)
	for _, file := range []string{"../packaging/prometheus/rowlock.rules.yaml", "../packaging/grafana/rowlock.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllString(string(text), -1)
		if len(found) < 6 {
			t.Errorf("%s names %q only", file, found)
		}
		for _, name := range found {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if !strings.Contains(served, "\n# TYPE "+name+" ") {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
}
