package sqlstore

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

func TestSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness { return newSQLiteHarness(t).harness() })
}

// sqliteHarness is a store on a file of its own, with little of its history in memory.
type sqliteHarness struct {
	path  string
	clock *clocktesting.FakeClock
	store *Store
}

func newSQLiteHarness(t *testing.T) *sqliteHarness {
	h := &sqliteHarness{path: filepath.Join(t.TempDir(), "rowlock.db"),
		clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	h.open(t)
	t.Cleanup(func() { h.close(t) })
	return h
}

func (h *sqliteHarness) options() Options {
	return Options{URL: "sqlite://" + h.path, HistoryAge: storetest.HistoryAge, LogSize: 16 << 10, Clock: h.clock,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

func (h *sqliteHarness) open(t *testing.T) *Store {
	t.Helper()
	s, err := Open(context.Background(), h.options())
	if err != nil {
		t.Fatal(err)
	}
	h.store = s
	return s
}

func (h *sqliteHarness) close(t *testing.T) {
	t.Helper()
	if err := h.store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (h *sqliteHarness) harness() storetest.Harness {
	return storetest.Harness{
		Store:   h.store,
		Advance: h.clock.Step,
		Prune: func(t *testing.T) {
			h.clock.Step(2 * storetest.HistoryAge)
			h.prune(t)
		},
		PruneDue: h.prune,
		Restart: func(t *testing.T) resources.Store {
			h.close(t)
			return h.open(t)
		},
		Crash: h.crash,
		Close: h.close,
	}
}

// prune does the janitor's pruning now.
func (h *sqliteHarness) prune(t *testing.T) {
	t.Helper()
	if _, err := h.store.janitor.prune(); err != nil {
		t.Errorf("prune: %v", err)
	}
}

// crash opens a copy of the files as they are at this moment.
func (h *sqliteHarness) crash(t *testing.T) resources.Store {
	t.Helper()
	left := &sqliteHarness{path: filepath.Join(t.TempDir(), "rowlock.db"), clock: h.clock}
	// The committer is idle meanwhile, so that the copy is of one moment. It is not made to finish anything.
	if _, err := h.store.janitor.task(func() error {
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(h.path + suffix)
			if err != nil {
				return err
			}
			if err := os.WriteFile(left.path+suffix, data, 0o600); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { left.close(t) })
	return left.open(t)
}
