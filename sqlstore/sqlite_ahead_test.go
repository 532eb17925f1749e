package sqlstore

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// openWith opens the store of a harness with a setting of synchronous.
func (h *sqliteHarness) openWith(t *testing.T, synchronous string) *Store {
	t.Helper()
	o := h.options()
	o.Synchronous = synchronous
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	h.store = s
	return s
}

// jump raises the counter of a store that is closed.
func (h *sqliteHarness) jump(t *testing.T, revision int64) {
	t.Helper()
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE meta SET revision = max(revision, $1), floor = max(floor, $1)", revision); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// files returns the files on the disk.
func (h *sqliteHarness) files(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	h.onWriter(t, func() error {
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(h.path + suffix)
			if err != nil {
				return err
			}
			files[suffix] = data
		}
		return nil
	})
	return files
}

// With synchronous=normal, a power cut loses commits, but no assigned revision is assigned again, whatever the setting
// is afterwards; and clients that saw lost changes are told to start anew.
func TestPowerCut(t *testing.T) {
	for then, jump := range map[string]int64{"normal": 0, "full": 1<<50 + 1<<49} { // as after a restore
		h := &sqliteHarness{path: filepath.Join(t.TempDir(), "rowlock.db"), clock: newSQLiteHarness(t).clock}
		h.openWith(t, "normal")
		h.close(t)
		h.jump(t, jump)
		s := h.openWith(t, "normal")
		kept := mustCommit(t, s, createMap(t, "kept"))[0] // flushed, as the first one that the mark covers
		flushed := h.files(t)
		var lost *resources.Object
		for _, name := range []string{"a", "b", "c"} {
			lost = mustCommit(t, s, createMap(t, name))[0]
		}
		h.close(t)
		h.path = filepath.Join(t.TempDir(), "rowlock.db")
		for suffix, data := range flushed {
			if err := os.WriteFile(h.path+suffix, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s = h.openWith(t, then)
		snap := settled(t.Context(), t, s)
		if snap.Count("", "") != 1 || snap.Get("default", kept.Name) == nil {
			t.Errorf("%d objects are not those that were flushed", snap.Count("", ""))
		}
		wantExpired(t.Context(), t, s, lost.Revision)
		next := mustCommit(t, s, createMap(t, "next"))[0]
		if next.Revision <= lost.Revision {
			t.Errorf("revision %d was given after %d", next.Revision, lost.Revision)
		}
		h.close(t)
		again := mustCommit(t, h.openWith(t, then), createMap(t, "again"))[0]
		if again.Revision != next.Revision+1 {
			t.Errorf("revision %d came after %d, although the store was closed", again.Revision, next.Revision)
		}
		w, err := h.store.Watch(t.Context(), resources.WatchOptions{Resource: next.Resource, After: next.Revision})
		if err != nil {
			t.Errorf("a watch from before the store was closed: %v", err)
		} else {
			w.Close()
		}
		h.close(t)
	}
}

// A mark is decoded correctly whatever the counter, though the last commits are missing.
func TestMarksOfLargeRevisions(t *testing.T) {
	a := newAhead("normal")
	for _, revision := range []int64{1, 3 * aheadUnit, aheadTurn*aheadUnit - 1, aheadTurn * aheadUnit, 1 << 51, 1<<51 + 12345*aheadUnit + 7,
		7*aheadTurn*aheadUnit - 1, 7 * aheadTurn * aheadUnit, 7*aheadTurn*aheadUnit - 2*aheadUnit, RevisionMax} {
		mark := a.next(revision)
		version := userVersion(mark)
		if version == 0 || version != int64(int32(version)) {
			t.Errorf("%d: the mark %d is written as %d", revision, mark, version)
		}
		for _, at := range []int64{revision, mark - 1, mark} {
			if got := markOf(version, at); got != mark {
				t.Errorf("%d: the mark %d is read as %d at %d", revision, mark, got, at)
			}
		}
	}
}

// Every revision is covered by a mark that was flushed before it was assigned; commits in between are not flushed.
func TestMarkIsAhead(t *testing.T) {
	h := &sqliteHarness{path: filepath.Join(t.TempDir(), "rowlock.db"), clock: newSQLiteHarness(t).clock}
	h.openWith(t, "normal")
	h.close(t)
	h.jump(t, 3*aheadUnit-3)
	s := h.openWith(t, "normal")
	defer h.close(t)
	marks := map[int64]bool{}
	for i := range 3 {
		s.db.driver.(*sqliteDriver).ahead.mark = min(s.db.driver.(*sqliteDriver).ahead.mark, 3*aheadUnit) // as if the mark were used up
		made := mustCommit(t, s, createMap(t, string(rune('a'+2*i))), createMap(t, string(rune('b'+2*i))))[1]
		h.onWriter(t, func() error {
			var units, synchronous int64
			err := h.driver().writer.QueryRowContext(t.Context(), "SELECT user_version, synchronous FROM pragma_user_version, pragma_synchronous").Scan(&units, &synchronous)
			if units*aheadUnit < made.Revision || synchronous != 1 {
				t.Errorf("after revision %d the mark is at %d, synchronous is %d", made.Revision, units*aheadUnit, synchronous)
			}
			marks[units] = true
			return err
		})
	}
	if len(marks) != 2 {
		t.Errorf("%d marks were flushed, want 2", len(marks))
	}
}

// A statement that fails may end SQLite's transaction, after which each further one would be a transaction of its own:
// the mark stays until the counter has jumped.
func TestMarkStaysUntilTheJump(t *testing.T) {
	h := &sqliteHarness{path: filepath.Join(t.TempDir(), "rowlock.db"), clock: newSQLiteHarness(t).clock}
	s := h.openWith(t, "normal")
	mustCommit(t, s, createMap(t, "a"))
	lost := h.files(t)
	h.close(t)
	h.path = filepath.Join(t.TempDir(), "rowlock.db")
	for suffix, data := range lost {
		if err := os.WriteFile(h.path+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"CREATE TRIGGER full BEFORE DELETE ON changes BEGIN SELECT RAISE(ROLLBACK, 'full'); END",
		"CREATE TRIGGER still BEFORE UPDATE ON meta BEGIN SELECT RAISE(ROLLBACK, 'still full'); END"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	o := h.options()
	if s, err := Open(t.Context(), o); err == nil {
		s.Close()
		t.Fatal("it was opened without the jump")
	}
	var mark int64
	if err := db.QueryRow("PRAGMA user_version").Scan(&mark); err != nil || mark == 0 {
		t.Errorf("the mark is %d, %v", mark, err)
	}
}
