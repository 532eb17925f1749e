package sqlstore

import (
	"context"
	"database/sql"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// toEarlierTables brings the closed file to the version before storedOnce, as an administrator does who goes back.
func (h *sqliteHarness) toEarlierTables(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, step := range []string{"0009_once", "0008_inline"} {
		text, err := os.ReadFile("../migrations/sqlite/" + step + ".down.sql")
		if err == nil {
			_, err = db.Exec("BEGIN; " + string(text) + "; COMMIT")
		}
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	if _, err := db.Exec("UPDATE schema_migrations SET version = $1", storedOnce-2); err != nil {
		t.Fatal(err)
	}
}

// wantSound verifies the file.
func (h *sqliteHarness) wantSound(t *testing.T, when string) {
	t.Helper()
	s, err := OpenSource(t.Context(), h.options())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	result, err := s.Verify(t.Context(), VerifyOptions{Found: func(f Finding) { t.Errorf("%s: %s: %s", when, f.Where, f.What) }})
	if err != nil || result.Objects == 0 || result.Changes == 0 {
		t.Errorf("%s: looked at %+v, %v", when, result, err)
	}
}

// Tables of the version that stored an object twice are taken over with what is in them, and so are those of a server
// that went back to it: all objects, and what was before each change of history.
func TestStoredOnceAfterEarlierTables(t *testing.T) {
	h := newSQLiteHarness(t)
	for round := range int64(3) {
		if err := updateOften(h.store, "worker", 40); err != nil {
			t.Fatal(err)
		}
		h.onWriter(t, func() error { // half of it: objects below the floor, and others after it
			left, err := h.store.db.prune(h.store.floor.Load() + 20)
			h.store.historyBytes.Store(left)
			return err
		})
		before := contents(mustSnapshot(t, h.store, resources.At{}))
		h.close(t)
		h.toEarlierTables(t)
		h.wantSound(t, "with the earlier tables")
		h.open(t)
		if diff := cmp.Diff(before, contents(mustSnapshot(t, h.store, resources.At{}))); diff != "" || len(before) == 0 {
			t.Errorf("round %d, objects (-before +after):\n%s", round, diff)
		}
		if n, err := readHistory(h.store); err != nil || n == 0 {
			t.Errorf("round %d: %d updates, %v", round, n, err)
		}
		for i, o := range mustSnapshotObjects(t, h.store) { // the objects before these are in no row of changes after the floor
			if made := mustCommit(t, h.store, next(o)); i > 0 { // the first is not written again
				mustCommit(t, h.store, next(made[0]))
			}
		}
		if n, err := readHistory(h.store); err != nil || n == 0 {
			t.Errorf("round %d, after updates: %d updates, %v", round, n, err)
		}
		h.clock.Step(2 * storetest.HistoryAge)
		h.prune(t)
		if n := h.sum(t, "SELECT count(*) FROM changes, meta WHERE changes.revision <= floor AND prev_data IS NOT NULL"); n != 0 {
			t.Errorf("round %d: %d changes keep the object before them below the floor", round, n)
		}
		checkLog(t, h.store)
		if err := updateOften(h.store, "another", 10); err != nil {
			t.Fatal(err)
		}
		h.close(t)
		h.wantSound(t, "after updates")
		h.open(t)
		if n, err := readHistory(h.store); err != nil || n == 0 {
			t.Errorf("round %d, after a restart: %d updates, %v", round, n, err)
		}
		h.removeAll(t)
	}
}

// mustSnapshotObjects returns the present objects.
func mustSnapshotObjects(t *testing.T, s *Store) (all []*resources.Object) {
	t.Helper()
	mustSnapshot(t, s, resources.At{}).Ascend("", "", func(o *resources.Object) bool {
		all = append(all, o)
		return true
	})
	return all
}

// next is the next update of an object of numbered.
func next(o *resources.Object) resources.Write {
	return numbered(o.Name, gjson.GetBytes(o.Data, "n").Int()+1, o.Revision)
}

// removeAll deletes all objects, so that updateOften can create them again.
func (h *sqliteHarness) removeAll(t *testing.T) {
	t.Helper()
	for _, o := range mustSnapshotObjects(t, h.store) {
		mustCommit(t, h.store, resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision})
	}
}

// The rows of the view objects are written as those of the table were.
func TestObjectsAreWrittenAsATable(t *testing.T) {
	h := newSQLiteHarness(t)
	a := mustCommit(t, h.store, numbered("a", 0, 0))[0]
	h.store.exec(t, "UPDATE objects SET data = replace(data, '0123', 'abcd') WHERE name = 'a'")
	h.store.exec(t, "INSERT INTO objects (resource, namespace, name, revision, data) SELECT resource, namespace, 'b', revision + 1000, data FROM objects")
	rows := func() (n, inside int) {
		if err := h.store.db.reads.QueryRowContext(context.Background(), "SELECT count(*), count(*) FILTER (WHERE data LIKE '%abcd%') FROM objects").Scan(&n, &inside); err != nil {
			t.Fatal(err)
		}
		return n, inside
	}
	if n, inside := rows(); n != 2 || inside != 2 {
		t.Errorf("%d objects, %d changed", n, inside)
	}
	var changed, once bool
	if err := h.store.db.reads.QueryRow("SELECT c.data LIKE '%abcd%', o.data = '' FROM changes c JOIN current o ON o.revision = c.revision WHERE c.revision = $1", a.Revision).
		Scan(&changed, &once); err != nil || !changed || !once {
		t.Errorf("the row of changes has the new data: %t; it is the only one: %t; %v", changed, once, err)
	}
	h.store.exec(t, "UPDATE objects SET revision = revision + 5 WHERE name = 'a'")
	h.store.exec(t, "DELETE FROM objects WHERE name = 'b'")
	if n, inside := rows(); n != 1 || inside != 1 {
		t.Errorf("then %d objects, %d changed", n, inside)
	}
}
