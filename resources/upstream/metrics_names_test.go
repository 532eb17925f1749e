package upstream_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestMetricsAreUpstreams compares the names, labels and buckets of metrics that have kube-apiserver's names with its source.
func TestMetricsAreUpstreams(t *testing.T) {
	root := filepath.Join("..", "..")
	ours, unread := upstreamtest.Metrics(t, filepath.Join(root, "server"), filepath.Join(root, "resources"), filepath.Join(root, "sqlstore"), filepath.Join(root, "cmd"))
	if len(unread) > 0 {
		t.Errorf("names of metrics that cannot be read: %s", unread)
	}
	var folders []string
	for _, pkg := range []string{"k8s.io/apiserver/pkg", "k8s.io/kubernetes/pkg/registry", "k8s.io/kube-aggregator/pkg", "k8s.io/component-base/metrics"} {
		folders = append(folders, upstreamtest.PackageDir(t, pkg))
	}
	theirs, _ := upstreamtest.Metrics(t, folders...)
	compared := 0
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if strings.HasPrefix(name, "rowlock_") || name == "apiserver_request_panics_total" { // kube-apiserver does not have it
			continue
		}
		compared++
		if len(theirs[name]) != 1 || len(ours[name]) != 1 {
			t.Errorf("%s is declared as %v, upstream as %v", name, ours[name], theirs[name])
			continue
		}
		got, want := ours[name][0], theirs[name][0]
		switch {
		case got.Kind == "Desc": // what it is is decided where it is collected
			got.Kind = want.Kind
			if name == "apiserver_watch_events_sizes" { // sizesOfEvents of server/handlers
				got.Buckets = []float64{1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10}
			}
		case name == "apiserver_request_duration_seconds": // here it has more
			got.Buckets = slices.DeleteFunc(got.Buckets, func(b float64) bool { return b < 0.025 && b != 0.005 })
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-upstream +ours): %s", name, diff)
		}
	}
	if compared < 60 {
		t.Errorf("only %d metrics were compared", compared)
	}
}
