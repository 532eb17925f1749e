package sqlstore

import (
	"context"
	"database/sql"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/sqlstore/sqltest"
)

// eitherHarness is a store on one of the databases, for tests that are the same for both.
type eitherHarness struct {
	clock   *clocktesting.FakeClock
	options func() Options
	store   *Store
}

// onBoth runs a test with a store on each database.
func onBoth(t *testing.T, on func(t *testing.T, h *eitherHarness)) {
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		e := &eitherHarness{h.clock, h.options, h.store}
		t.Cleanup(func() { e.close(t) })
		on(t, e)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		e := &eitherHarness{h.clock, h.options, h.store}
		t.Cleanup(func() { e.close(t) })
		on(t, e)
	})
}

func (h *eitherHarness) close(t *testing.T) {
	t.Helper()
	if err := h.store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (h *eitherHarness) open(t *testing.T) *Store { return h.openWith(t, h.options()) }

func (h *eitherHarness) openWith(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	h.store = s
	return s
}

// prune does the janitor's pruning now.
func (h *eitherHarness) prune(t *testing.T) {
	t.Helper()
	if _, err := h.store.janitor.prune(); err != nil {
		t.Errorf("prune: %v", err)
	}
}

// kill closes the store; nothing that Close writes is there then.
func (h *eitherHarness) kill(t *testing.T) {
	t.Helper()
	var noted sql.NullString
	if err := h.store.db.reads.QueryRow("SELECT ages FROM meta").Scan(&noted); err != nil {
		t.Fatal(err)
	}
	h.close(t)
	o := h.options()
	if _, err := sqltest.Ask(t.Context(), o.URL, o.Schema, "UPDATE meta SET ages = nullif('"+noted.String+"', '')"); err != nil {
		t.Fatal(err)
	}
}
