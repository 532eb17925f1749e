package sqlstore

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

// A COMMIT that fails while the write-ahead log is flushed leaves its pages in the log, not visible until a crash. What determines its outcome takes
// their place there, so that a write that was said to have failed does not appear after a crash.
func TestFailedCommitIsNotFoundAfterACrash(t *testing.T) {
	h := newSQLiteHarness(t)
	mustCommit(t, h.store, createMap(t, "a"))
	files := func(path string) (all [2][]byte) {
		for i, file := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = data
		}
		return all
	}
	crashed := func(all [2][]byte) (string, *sql.DB) {
		path := filepath.Join(t.TempDir(), "rowlock.db")
		for i, file := range []string{path, path + "-wal"} {
			if err := os.WriteFile(file, all[i], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return path, db
	}
	floor := func(db *sql.DB) (floor int) {
		if err := db.QueryRow("SELECT floor FROM meta").Scan(&floor); err != nil {
			t.Fatal(err)
		}
		return floor
	}
	before := files(h.path)
	path, copied := crashed(before)
	if _, err := copied.Exec("UPDATE meta SET floor = 17"); err != nil {
		t.Fatal(err)
	}
	failed := files(path)[1][len(before[1]):]
	log, err := os.OpenFile(h.path+"-wal", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Write(failed); err != nil {
		t.Fatal(err)
	}
	if _, db := crashed(files(h.path)); floor(db) != 17 {
		t.Fatal("the log is not as after a COMMIT whose flush failed")
	}
	if err := h.store.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, db := crashed(files(h.path)); floor(db) == 17 {
		t.Error("a crash makes visible what was not written")
	}
}
