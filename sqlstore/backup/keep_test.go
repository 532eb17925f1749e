package backup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// The newest backups are kept, and backups from the future, made by a clock that was ahead, do not count as newest.
func TestPruneAfterTheClockWasAhead(t *testing.T) {
	now := time.Date(2026, time.November, 23, 9, 0, 0, 0, time.UTC)
	k := &Keeper{Dir: t.TempDir(), Keep: 2, Clock: clocktesting.NewFakeClock(now)}
	for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(-2 * time.Hour), now.AddDate(10, 0, 0)} {
		if err := os.WriteFile(filepath.Join(k.Dir, namePrefix+at.Format(nameTime)+nameSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.prune(now); err != nil {
		t.Fatal(err)
	}
	got, err := k.names(now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{namePrefix + now.Format(nameTime) + nameSuffix, namePrefix + now.Add(-time.Hour).Format(nameTime) + nameSuffix}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A backup that was made while the clock was set back stays, and the partial files of others go, in a directory of any name.
func TestOnceWhileTheClockIsSetBack(t *testing.T) {
	now := time.Date(2026, time.November, 23, 9, 0, 0, 0, time.UTC)
	from := t.TempDir()
	if _, err := Restore(t.Context(), bytes.NewReader(filled(t, 3)), Destination{Store: sqliteAt(from), DataDir: from}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"[a]", "[", "*"} {
		k := &Keeper{Dir: filepath.Join(t.TempDir(), name), Keep: 2, Clock: clocktesting.NewFakeClock(now), Logger: slog.New(slog.DiscardHandler)}
		if err := k.Register(prometheus.NewRegistry()); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(k.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		nameAt := func(at time.Time) string { return namePrefix + at.Format(nameTime) + nameSuffix }
		left := filepath.Join(k.Dir, "."+nameAt(now)+".1"+partial)
		for _, path := range []string{left, filepath.Join(k.Dir, nameAt(now.Add(-2*time.Hour))), filepath.Join(k.Dir, nameAt(now.Add(-3*time.Hour)))} {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		k.Clock = &setBack{Clock: k.Clock, by: -time.Hour}
		k.Origin = func() (Origin, error) {
			return Origin{Store: sqliteAt(from), DataDir: from, Now: time.Now}, nil
		}
		if err := k.once(t.Context()); err != nil {
			t.Errorf("in %q: %v", name, err)
		}
		got, err := k.names(now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{nameAt(now), nameAt(now.Add(-2 * time.Hour))}, got); diff != "" {
			t.Errorf("in %q: %s", name, diff)
		}
		if _, err := os.Stat(left); err == nil {
			t.Errorf("in %q a partial file is left", name)
		}
	}
}

// setBack is a clock that is set back after its first use.
type setBack struct {
	clock.Clock
	by   time.Duration
	used bool
}

func (c *setBack) Now() time.Time {
	if c.used {
		return c.Clock.Now().Add(c.by)
	}
	c.used = true
	return c.Clock.Now()
}

// A backup from the future is neither the last successful one, for alerts, nor a reason to delay the next one.
func TestFirstAfterTheClockWasAhead(t *testing.T) {
	now := time.Date(2026, time.November, 23, 9, 0, 0, 0, time.UTC)
	k := &Keeper{Dir: t.TempDir(), Every: time.Hour, Keep: 2, Clock: clocktesting.NewFakeClock(now)}
	if err := k.Register(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	last := now.Add(-20 * time.Minute)
	for _, step := range []struct {
		made    time.Time
		in      time.Duration
		success float64
	}{{now.AddDate(10, 0, 0), 0, 0}, {last, 40 * time.Minute, float64(last.Unix())}} {
		if err := os.WriteFile(filepath.Join(k.Dir, namePrefix+step.made.Format(nameTime)+nameSuffix), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if in := k.first(); in != step.in {
			t.Errorf("after one of %v, the first is made in %v, not in %v", step.made, in, step.in)
		}
		if got := testutil.ToFloat64(k.metrics.last); got != step.success {
			t.Errorf("after one of %v, the last success was at %v, not at %v", step.made, got, step.success)
		}
	}
}

// A time of the last backup that a clock ahead has set is corrected at the next failure at the latest.
func TestLastAfterAFailure(t *testing.T) {
	k := &Keeper{Dir: t.TempDir(), Every: time.Hour, Keep: 2, Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler)}
	if err := k.Register(prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	k.Origin = func() (Origin, error) {
		k.metrics.last.Set(float64(time.Now().AddDate(10, 0, 0).Unix()))
		return Origin{}, errors.New("out of order")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	for deadline := time.Now().Add(time.Minute); testutil.ToFloat64(k.metrics.failures) == 0 || testutil.ToFloat64(k.metrics.last) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v failures, the last success was at %v", testutil.ToFloat64(k.metrics.failures), testutil.ToFloat64(k.metrics.last))
		}
	}
	cancel()
	running.Wait()
}
