package sqlstore

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/procfs"

	"github.com/rowlock/rowlock/resources"
)

// counted returns the system's counters of this process; zeros, if it has none.
func counted() procfs.ProcIO {
	io, _ := processIO(procfs.DefaultMountPoint)
	return io
}

// The store exports metrics, whose names follow Prometheus' rules, and unregisters them when it closes.
func TestMetrics(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	registry := prometheus.NewPedanticRegistry()
	o := h.options()
	o.Registerer = registry
	var err error
	if h.store, err = Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	made := mustCommit(t, h.store, createMap(t, "a"), createMap(t, "b"))
	w, err := h.store.Watch(context.Background(), resources.WatchOptions{Resource: "configmaps", After: made[1].Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.Metric[0]
		switch {
		case m.Gauge != nil:
			got[f.GetName()] = m.Gauge.GetValue()
		case m.Counter != nil:
			got[f.GetName()] = m.Counter.GetValue()
		case m.Histogram != nil:
			got[f.GetName()] = float64(m.Histogram.GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"rowlock_store_revision": float64(made[1].Revision), "rowlock_store_watchers": 1, "rowlock_store_events_total": 2,
		"rowlock_store_commit_writes": 1, "rowlock_store_commit_seconds": 1, "rowlock_store_history_oldest_revision": 1,
		"rowlock_store_history_bytes": float64(len(made[0].Data) + len(made[1].Data)), "rowlock_store_history_age_seconds": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if n := got["rowlock_store_database_bytes"]; n < 4096 || got["apiserver_storage_size_bytes"] != n {
		t.Errorf("the database has %v bytes, or %v", n, got["apiserver_storage_size_bytes"])
	}
	if _, ok := got["rowlock_store_written_bytes_total"]; ok != (runtime.GOOS == "linux") {
		t.Error("it is not said how many bytes are written, or said where the system does not count them")
	}
	if writtenBytes(t.TempDir()) != nil {
		t.Error("there is a count of bytes without /proc")
	}
	before := counted().WChar
	if err := os.WriteFile(filepath.Join(t.TempDir(), "written"), make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := counted().WChar - before; n < 8192 && runtime.GOOS == "linux" {
		t.Errorf("of 8192 bytes %d were counted", n)
	}
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	if age := h.store.historyAge(); !math.IsNaN(age) { // 0 would be a short history, for which there is an alert
		t.Errorf("of a database that does not answer history is %v old", age)
	}
	if families, err := registry.Gather(); err != nil || len(families) > 0 {
		t.Errorf("%d metrics are left, %v", len(families), err)
	}
}
