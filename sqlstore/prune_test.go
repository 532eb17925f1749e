package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// A prune that fails changes nothing: what it was to delete can still be read, and is still counted until it is deleted.
func TestFailedPrune(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		testFailedPrune(t, h.store, func() { h.clock.Step(2 * storetest.HistoryAge) },
			`CREATE TRIGGER refuse BEFORE DELETE ON changes BEGIN SELECT RAISE(ABORT, 'not now'); END`, `DROP TRIGGER refuse`)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		testFailedPrune(t, h.store, func() { h.clock.Step(2 * storetest.HistoryAge) },
			`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$;
			CREATE TRIGGER refuse BEFORE DELETE ON changes FOR EACH ROW EXECUTE FUNCTION refuse()`,
			`DROP TRIGGER refuse ON changes`)
	})
}

func testFailedPrune(t *testing.T, s *Store, age func(), refuse, allow string) {
	ctx := context.Background()
	start := s.revisions.current.Load()
	const objects = 600 // more than the log in memory of a harness has, and than one step takes
	for i := range objects {
		mustCommit(t, s, createMap(t, strconv.Itoa(i)))
	}
	counted := s.historyBytes.Load()
	age()
	s.exec(t, refuse)
	if _, err := s.janitor.prune(); !errors.Is(err, resources.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
	if floor := s.floor.Load(); floor != start {
		t.Errorf("history begins at %d, want %d", floor, start)
	}
	w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if events, _, err := w.Next(ctx, objects); err != nil || len(events) == 0 || events[0].Revision != start+1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	s.wantHistory(t, counted)

	s.exec(t, allow)
	for s.floor.Load() == start { // the janitor of the store may be at it as well
		if _, err := s.janitor.prune(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start}); !errors.As(err, new(*resources.ExpiredError)) {
		t.Errorf("got %v, want ExpiredError", err)
	}
	s.wantHistory(t, 0)
}

// A count of history that went wrong does not stay wrong.
func TestHistoryIsCountedAnew(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"))
	h.store.exec(t, "UPDATE meta SET history_bytes = 1000000000000")
	h.close(t)
	h.open(t)
	h.prune(t)
	h.store.wantHistory(t, 0)
	mustCommit(t, h.store, createMap(t, "b"))
	var size int64
	if err := h.store.db.reads.QueryRow("SELECT sum(size) FROM changes").Scan(&size); err != nil {
		t.Fatal(err)
	}
	h.store.wantHistory(t, size)
}

// exec runs a statement on the database, between batches.
func (s *Store) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := s.janitor.task(func() error {
		if d, ok := s.db.driver.(*sqliteDriver); ok {
			_, err := d.writer.ExecContext(context.Background(), statement)
			return err
		}
		_, err := s.db.reads.Exec(statement)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// wantHistory checks how many bytes of history are counted, in memory and in the database.
func (s *Store) wantHistory(t *testing.T, want int64) {
	t.Helper()
	var stored int64
	if err := s.db.reads.QueryRow("SELECT history_bytes FROM meta").Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if counted := s.historyBytes.Load(); counted != want || stored != want {
		t.Errorf("history has %d bytes by the count in memory and %d by that in the database, want %d", counted, stored, want)
	}
}
