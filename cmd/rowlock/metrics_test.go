package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	base "k8s.io/component-base/metrics"

	"github.com/rowlock/rowlock/resources/upstream"
)

// What metrics show is as the flags and the manifest say, in Rowlock's and in upstream's; and /flagz shows the flags as they were given.
func TestMetricsAreLimited(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "labels.yaml")
	if err := os.WriteFile(manifest, []byte("rowlock_store_events_total,op: update,delete\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--data-dir", t.TempDir(), "--allow-metric-labels-manifest", manifest, "--disabled-metrics", "rowlock_store_watchers",
		"--show-hidden-metrics-for-version", fmt.Sprintf("%d.%d", upstream.Major, upstream.Minor-1))
	metrics := p.path(t, "/metrics")
	if !strings.Contains(metrics, `rowlock_store_events_total{op="unexpected"} `) || strings.Contains(metrics, `op="create"`) {
		t.Error("the manifest is not followed")
	}
	if strings.Contains(metrics, "rowlock_store_watchers") {
		t.Error("what was disabled is shown")
	}
	if strings.Contains(metrics, "\ndisabled_metrics_total 0\n") || !base.ShouldShowHidden() {
		t.Error("upstream does not know of it")
	}
	flags := p.path(t, "/flagz")
	for _, line := range []string{"allow-metric-labels=[]", "allow-metric-labels-manifest=" + manifest} {
		if !strings.Contains(flags, "\n"+line+"\n") {
			t.Errorf("/flagz does not show %s", line)
		}
	}
}
