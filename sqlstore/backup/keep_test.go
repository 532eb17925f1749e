package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

// The newest backups are kept; those of a clock that was ahead are none of them.
func TestPruneAfterTheClockWasAhead(t *testing.T) {
	now := time.Date(2026, time.November, 23, 9, 0, 0, 0, time.UTC)
	k := &Keeper{Dir: t.TempDir(), Keep: 2, Clock: clocktesting.NewFakeClock(now)}
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(-2 * time.Hour), now.AddDate(10, 0, 0)} {
		if err := os.WriteFile(filepath.Join(k.Dir, namePrefix+at.Format(nameTime)+nameSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.prune(); err != nil {
		t.Fatal(err)
	}
	got, err := k.names()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{namePrefix + now.Format(nameTime) + nameSuffix, namePrefix + now.Add(-time.Hour).Format(nameTime) + nameSuffix}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
