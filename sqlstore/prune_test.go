package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// pruneRefusal returns statements that make a database refuse to delete changes, and allow it again. code is Postgres's:
// SQLite has none.
func pruneRefusal(s *Store, code string) (refuse, allow string) {
	if s.Shared() {
		return `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now' USING ERRCODE = '` + code + `'; END $$;
			CREATE TRIGGER refuse BEFORE DELETE ON changes FOR EACH ROW EXECUTE FUNCTION refuse()`, `DROP TRIGGER refuse ON changes`
	}
	return `CREATE TRIGGER refuse BEFORE UPDATE OF floor ON meta BEGIN SELECT RAISE(ABORT, 'not now'); END`, `DROP TRIGGER refuse`
}

// A failed prune changes nothing: its changes can still be read, and are counted until they are deleted.
func TestFailedPrune(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		refuse, allow := pruneRefusal(h.store, "P0001")
		testFailedPrune(t, h.store, func() { h.clock.Step(2 * storetest.HistoryAge) }, refuse, allow)
	})
}

func testFailedPrune(t *testing.T, s *Store, age func(), refuse, allow string) {
	ctx := context.Background()
	start := s.revisions.current.Load()
	const objects = 600 // more than the log in memory of a harness holds, and than one step prunes
	for i := range objects {
		mustCommit(t, s, createMap(t, strconv.Itoa(i)))
	}
	counted := s.historyBytes.Load()
	s.exec(t, refuse) // first: the janitor prunes as soon as the changes are old
	age()
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
	for s.floor.Load() == start { // the janitor of the store may be pruning as well
		if _, err := s.janitor.prune(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: start}); !errors.As(err, new(*resources.ExpiredError)) {
		t.Errorf("got %v, want ExpiredError", err)
	}
	s.wantHistory(t, 0)
}

// A wrong count of history is corrected.
func TestHistoryIsCountedAnew(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		mustCommit(t, h.store, createMap(t, "a"))
		wrong := "UPDATE meta SET history_bytes = 1000000000000"
		if h.store.Shared() {
			wrong = "UPDATE meta SET freed = -1000000000000"
		}
		h.store.exec(t, wrong)
		h.close(t)
		h.open(t)
		h.prune(t)
		h.store.wantHistory(t, 0)
		mustCommit(t, h.store, createMap(t, "b"))
		var size int64
		if err := h.store.db.reads.QueryRow("SELECT sum(size) FROM changes" + ofHistory(h.store)).Scan(&size); err != nil {
			t.Fatal(err)
		}
		h.store.wantHistory(t, size)
	})
}

// History keeps its bound at every moment while many clients write as fast as they can.
func TestHistoryKeepsItsBound(t *testing.T) {
	const bound = 1 << 20 // more than one batch has
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		h.close(t)
		o := h.options()
		o.HistorySize = bound
		h.store = mustOpen(t, o)
		testHistoryKeepsItsBound(t, h.store, bound)
		if size, err := h.store.db.size(context.Background()); err != nil || size > 6*bound {
			t.Errorf("the database has %d bytes, %v", size, err)
		}
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		o := h.options()
		o.HistorySize = bound
		s := mustOpen(t, o)
		defer s.Close()
		testHistoryKeepsItsBound(t, s, bound)
	})
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func testHistoryKeepsItsBound(t *testing.T, s *Store, bound int64) {
	const writers, rounds, each = 8, 20, 16
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			for i := range rounds {
				writes := make([]resources.Write, each)
				for j := range writes {
					writes[j] = createMap(t, fmt.Sprintf("%d-%d-%d", n, i%3, j))
					if i >= 3 { // created three rounds ago
						writes[j].Op = resources.Update
						o, err := s.Get(context.Background(), writes[j].Key, resources.At{})
						if err != nil {
							t.Error(err)
							return
						}
						writes[j].From = o.Revision
					}
				}
				if _, err := s.Commit(context.Background(), writes...); err != nil {
					t.Error(err)
					return
				}
				if n := s.historyBytes.Load(); n > bound {
					t.Errorf("history has %d bytes, its bound is %d", n, bound)
				}
			}
		})
	}
	wg.Wait()
	if _, err := s.janitor.prune(); err != nil {
		t.Fatal(err)
	}
	checkLog(t, s)
	if size := s.historyBytes.Load(); size < bound*3/4 {
		t.Errorf("history has %d bytes, its bound is %d; it begins after %d", size, bound, s.floor.Load())
	}
}

// Changes that cannot be pruned fail no writes: batches leave pruning to the janitor until it has succeeded.
func TestBatchesGoOnWithoutPruning(t *testing.T) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		h.close(t)
		o := h.options()
		o.HistorySize = 20 << 10
		s := h.openWith(t, o)
		refuse, allow := pruneRefusal(s, "23000") // as a constraint
		s.exec(t, refuse)
		for i := range 50 {
			mustCommit(t, s, createMap(t, strconv.Itoa(i)))
		}
		s.exec(t, allow)
		h.prune(t)
		for i := range 50 {
			mustCommit(t, s, createMap(t, "then-"+strconv.Itoa(i)))
			if n := s.historyBytes.Load(); n > o.HistorySize {
				t.Errorf("history has %d bytes, its bound is %d", n, o.HistorySize)
			}
		}
	})
}

// History ages while the server runs, however often it is restarted.
func TestAgeGoesOnAcrossRestarts(t *testing.T) {
	h := newSQLiteHarness(t)
	first := mustCommit(t, h.store, createMap(t, "first"))[0]
	for i := range 8 {
		h.clock.Step(storetest.HistoryAge / 5)
		mustCommit(t, h.store, createMap(t, strconv.Itoa(i)))
		h.close(t)
		h.open(t)
	}
	h.prune(t)
	if floor := h.store.floor.Load(); floor < first.Revision || floor == h.store.revisions.current.Load() {
		t.Errorf("history begins at %d, the first change is at %d", floor, first.Revision)
	}
}

// The time while a store is open without writes ages history, and the time while it is closed does not, however often
// it is restarted.
func TestAgeGoesOnWithoutWrites(t *testing.T) {
	restarts := func(t *testing.T, clock interface{ Step(time.Duration) }, restart func(closed func()) *Store, prune func(*testing.T)) {
		s := restart(func() {})
		first := mustCommit(t, s, createMap(t, "a"))[0].Revision
		last := mustCommit(t, s, createMap(t, "b"))[0].Revision
		for range 4 {
			clock.Step(storetest.HistoryAge / 5)
			s = restart(func() { clock.Step(100 * storetest.HistoryAge) })
		}
		if prune(t); s.floor.Load() >= first {
			t.Errorf("after four fifths of its age history begins at %d, the first change is %d", s.floor.Load(), first)
		}
		for range 2 {
			clock.Step(storetest.HistoryAge / 5)
			s = restart(func() {})
		}
		if prune(t); s.floor.Load() != last {
			t.Errorf("history begins at %d, the last change is %d", s.floor.Load(), last)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		restarts(t, h.clock, func(closed func()) *Store {
			h.close(t)
			closed()
			return h.open(t)
		}, h.prune)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		restarts(t, h.clock, func(closed func()) *Store {
			h.close(t)
			closed()
			h.store = h.open(t)
			return h.store
		}, h.prune)
	})
}

// The time while a server was away does not age history.
func TestHistoryWaitsForTheServer(t *testing.T) {
	h := newSQLiteHarness(t)
	start := h.store.revisions.current.Load()
	mustCommit(t, h.store, createMap(t, "a"))
	h.clock.Step(storetest.HistoryAge / 5)
	mustCommit(t, h.store, createMap(t, "b"))
	h.close(t)
	h.clock.Step(100 * storetest.HistoryAge)
	h.open(t)
	for _, step := range []struct {
		after time.Duration
		want  int64
	}{{0, 0}, {storetest.HistoryAge * 3 / 5, 0}, {storetest.HistoryAge * 3 / 10, 1}, {storetest.HistoryAge / 5, 2}} {
		h.clock.Step(step.after)
		h.prune(t)
		if floor := h.store.floor.Load(); floor != start+step.want {
			t.Errorf("%v later history begins at %d, want %d", step.after, floor, start+step.want)
		}
	}
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
	var at sql.NullInt64
	if err := s.db.reads.QueryRow(s.db.state).Scan(new(int64), new(int64), &stored, &at, new(sql.NullString)); err != nil {
		t.Fatal(err)
	}
	if counted := s.historyBytes.Load(); counted != want || stored != want {
		t.Errorf("history has %d bytes by the count in memory and %d by that in the database, want %d", counted, stored, want)
	}
}
