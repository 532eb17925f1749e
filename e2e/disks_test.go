package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/disk"
	"github.com/rowlock/rowlock/e2e/checker/history"
	"github.com/rowlock/rowlock/e2e/checker/trial"
)

// TestDisks lets clients work while the disk under SQLite has every fault that the checker knows: servers are killed at system calls of commits,
// power is cut, the disk is full, read-only or slow, has errors, or a page of the file is damaged. The clients' histories are verified.
func TestDisks(t *testing.T) {
	o := diskOptions(t)
	report := wantClean(t, o)
	broken := 0
	for _, times := range report.Faults {
		broken += times
	}
	if broken == 0 {
		t.Error("nothing broke")
	}
}

// TestPowerCutsBite checks that the checker detects unflushed commits: power cuts lose acknowledged writes. Whether a single one loses a write of an
// object that is read afterwards is chance; that none of several does is not.
func TestPowerCutsBite(t *testing.T) {
	o := diskOptions(t)
	o.Faults, o.Args = []string{"power"}, []string{"--sqlite-synchronous=normal"}
	o.Keep = "" // violations are expected
	for o.Seed = 1; o.Seed <= 5; o.Seed++ {
		report, err := trial.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(report)
		if slices.ContainsFunc(report.Violations, func(v history.Violation) bool { return v.Rule == history.RuleDurable }) {
			return
		}
	}
	t.Error("nothing that was acknowledged is missing")
}

// diskOptions are those of a trial of seconds with a faulty disk. It skips the test where no disk can be mounted.
func diskOptions(t *testing.T) trial.Options {
	t.Helper()
	if database.url != "" {
		t.Skip("disks break under SQLite; that of Postgres is its own")
	}
	if err := disk.Available(); err != nil {
		unavailable(t, err)
	}
	o := histories(t)
	o.Faults = slices.DeleteFunc(strings.Split(trial.Faults(o.Database), ","), func(name string) bool { return !trial.NeedsDisk(name) })
	o.Duration, o.Round, o.Pause = 6*time.Second, 6*time.Second, 300*time.Millisecond
	return o
}
