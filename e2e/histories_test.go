package e2e

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/trial"
)

// TestHistories lets clients of all kinds work while servers are killed, and verifies their histories: linearizable reads and writes, growing
// revisions, lists of the revision that they name, and watches without omitted, repeated or exchanged events. `make check-histories` does this for
// longer and with more faults; docs/reliability.md.
func TestHistories(t *testing.T) {
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o := trial.Options{Database: trial.SQLite, Servers: 1, Faults: []string{"kill"}, Seed: 1, Duration: 4 * time.Second, Round: 4 * time.Second,
		Clients: 8, Watchers: 16, Names: 10, Keep: t.TempDir(), Log: io.Discard}
	if database.url != "" {
		o.Database, o.Servers = trial.Postgres, 2
	}
	report, err := trial.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	wantClean(t, report)
}

// TestCrowd lets hundreds of clients write while hundreds of watches are open, some of which read slowly.
func TestCrowd(t *testing.T) {
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	o := trial.Options{Database: trial.SQLite, Servers: 1, Seed: 1, Duration: 4 * time.Second, Round: 4 * time.Second, Clients: 200, Watchers: 500, Names: 200,
		Crowd: true, Reluctant: 4, Keep: t.TempDir(), Log: io.Discard}
	if database.url != "" {
		o.Database, o.Servers = trial.Postgres, 2
	}
	report, err := trial.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	wantClean(t, report)
}

// wantClean requires a trial that did something, without violations.
func wantClean(t *testing.T, report *trial.Report) {
	t.Helper()
	t.Log(report)
	if report.Requests == 0 || report.Events == 0 {
		t.Errorf("nothing has happened: %v", report)
	}
	for i, v := range report.Violations {
		if i == 5 {
			break
		}
		t.Error(v)
	}
}
