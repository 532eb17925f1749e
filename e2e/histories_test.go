package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/trial"
	"github.com/rowlock/rowlock/e2e/harness"
)

// TestHistories lets clients of all kinds work while servers are killed and stopped, and while Postgres and the connections to it have every fault that
// the checker knows. It verifies their histories: linearizable reads and writes, growing revisions, lists of the revision that they name, and watches
// without omitted, repeated or exchanged events. `make check-histories` does this for longer; docs/reliability.md.
func TestHistories(t *testing.T) {
	o := histories(t)
	o.Faults = []string{"kill", "stop"}
	if o.Database == trial.Postgres {
		o.Duration, o.Round, o.Pause = 8*time.Second, 8*time.Second, 300*time.Millisecond
		o.Faults = slices.DeleteFunc(strings.Split(trial.Faults(o.Database), ","), trial.NeedsClock)
	}
	report := wantClean(t, o)
	if len(report.Faults) == 0 {
		t.Error("nothing broke")
	}
}

// TestPruned does the same while servers that are killed prune changes that are a second old. What can be so old may be refused with 410, and nothing else.
func TestPruned(t *testing.T) {
	o := histories(t)
	o.HistoryAge, o.Faults = time.Second, []string{"kill"}
	o.Duration, o.Round = 9*time.Second, 3*time.Second // a server that is slow to start costs a round
	report := wantClean(t, o)
	if report.Refused == 0 {
		t.Error("nothing was refused")
	}
	if report.Partial == report.Rounds {
		t.Error("no history could be verified to the end")
	}
}

// TestCrowd lets hundreds of clients write while hundreds of watches are open, some of which read slowly.
func TestCrowd(t *testing.T) {
	o := histories(t)
	o.Clients, o.Watchers, o.Names, o.Crowd, o.Reluctant = 200, 500, 200, true, 4
	wantClean(t, o)
}

// histories are the options of a trial of seconds, on the database of this run.
func histories(t *testing.T) trial.Options {
	t.Helper()
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	o := trial.Options{Database: trial.SQLite, Servers: 1, Seed: 1, Duration: 4 * time.Second, Round: 4 * time.Second, Pause: time.Second, Clients: 8, Watchers: 16,
		Names: 10, Keep: kept(t), Log: io.Discard}
	if database.url != "" {
		o.Database, o.Servers = trial.Postgres, 2
	}
	return o
}

// kept is the directory for the histories of a test that have violations. It outlives the test, so that they can be verified again.
func kept(t *testing.T) string {
	t.Helper()
	return filepath.Join(harness.Root(), "bin", "histories", t.Name())
}

// wantClean runs a trial, and requires that it did something, without violations.
func wantClean(t *testing.T, o trial.Options) *trial.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	report, err := trial.Run(ctx, o)
	if report != nil {
		wantCleanReport(t, o, report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// wantCleanReport requires of a trial that it did something, without violations.
func wantCleanReport(t *testing.T, o trial.Options, report *trial.Report) {
	t.Helper()
	t.Log(report)
	if report.Requests == 0 || report.Events == 0 {
		t.Errorf("nothing has happened: %v", report)
	}
	if len(report.Kept) > 0 {
		t.Errorf("seed %d; the histories are in %v: go run ./e2e/checker -verify", o.Seed, report.Kept)
	}
	for i, v := range report.Violations {
		if i == 5 {
			break
		}
		t.Error(v)
	}
}

// unavailable skips a test that needs what this machine does not have. Where E2E_COMPLETE is set, the test fails instead.
func unavailable(t *testing.T, why error) {
	t.Helper()
	if os.Getenv("E2E_COMPLETE") != "" {
		t.Fatalf("skipped elsewhere, but not where E2E_COMPLETE is set: %v", why)
	}
	t.Skip(why)
}
