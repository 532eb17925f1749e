package migrations

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/google/go-cmp/cmp"
)

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// schema returns the definitions of a SQLite database's tables.
func schema(t *testing.T, db *sql.DB) []string {
	t.Helper()
	return texts(t, db, "SELECT name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
}

// texts returns the rows of a query for one column of text.
func texts(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// Every step up has its step down, and going up again leads to the same tables.
func TestUpDownUp(t *testing.T) {
	db := openSQLite(t)
	if err := SQLite(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	want := schema(t, db)
	if err := sqliteIn(t.Context(), db, func(d driver) error { return down(d, "sqlite") }); err != nil {
		t.Fatal(err)
	}
	if left := schema(t, db); len(left) != 2 { // schema_migrations and its index
		t.Errorf("left after the way down: %v", left)
	}
	if err := SQLite(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, schema(t, db)); diff != "" {
		t.Errorf("second way up (-first +second):\n%s", diff)
	}
	if err := SQLite(t.Context(), db); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
}

// down runs every step down.
func down(d driver, dir string) error {
	src, err := iofs.New(files, dir)
	if err != nil {
		return err
	}
	newest, err := last(src)
	if err != nil {
		return err
	}
	for v := uint(newest); ; {
		text, _, err := src.ReadDown(v)
		if err == nil {
			err = d.run(text)
		}
		if err != nil {
			return err
		}
		if v, err = src.Prev(v); err != nil {
			return d.setVersion(0)
		}
	}
}

// Both databases have the same steps, except for those that only SQLite has. The numbers of each have no gap: a
// program that finds a version one higher than it knows takes that for one step.
func TestSameSteps(t *testing.T) {
	names := func(dir string) (out []string) {
		entries, err := fs.ReadDir(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries { // two files for a step, down and up
			number, name, _ := strings.Cut(e.Name(), "_")
			if want := fmt.Sprintf("%04d", i/2+1); number != want {
				t.Errorf("%s/%s has not the number %s", dir, e.Name(), want)
			}
			step, _, _ := strings.Cut(name, ".")
			if dir != "sqlite" || !slices.Contains([]string{"prev_once", "inline", "once"}, step) {
				out = append(out, name)
			}
		}
		return out
	}
	if diff := cmp.Diff(names("sqlite"), names("postgres")); diff != "" {
		t.Errorf("steps (-sqlite +postgres):\n%s", diff)
	}
}

// A schema that a newer program made is refused, and not changed.
func TestNewerIsRefused(t *testing.T) {
	db := openSQLite(t)
	if err := SQLite(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 9999")
	var newer *NewerError
	if err := SQLite(t.Context(), db); !errors.As(err, &newer) || newer.Version != 9999 {
		t.Fatalf("got %v, want a NewerError of version 9999", err)
	}
	var version int
	if err := db.QueryRow("SELECT version FROM schema_migrations").Scan(&version); err != nil || version != 9999 {
		t.Errorf("the version became %d, %v", version, err)
	}
}

// A dirty schema whose tables do not show how far a migration came is refused, and not changed.
func TestDirtyIsRefused(t *testing.T) {
	for name, odd := range map[string]string{
		"half-made":    "DROP TABLE changes",
		"changed":      "ALTER TABLE changes ADD COLUMN theirs TEXT",
		"unknown step": "UPDATE schema_migrations SET version = version + 1",
	} {
		db := openSQLite(t)
		if err := SQLite(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "UPDATE schema_migrations SET dirty = true")
		exec(t, db, odd)
		before := schema(t, db)
		var dirty *DirtyError
		if err := SQLite(t.Context(), db); !errors.As(err, &dirty) {
			t.Errorf("%s: got %v, want a DirtyError", name, err)
		}
		if diff := cmp.Diff(before, schema(t, db)); diff != "" {
			t.Errorf("%s: tables changed:\n%s", name, diff)
		}
	}
}

// A dirty schema of a release that was killed while it marked the schema dirty, ran a step and marked it clean is
// repaired, whether the step ran or not.
func TestDirtyIsSettled(t *testing.T) {
	steps := release(t, 2)
	newest := versions(t, steps)
	for _, step := range newest {
		for _, taken := range []bool{false, true} {
			db := openSQLite(t)
			at := step
			if !taken {
				at--
			}
			migrateTo(t, db, steps, at)
			exec(t, db, "DELETE FROM schema_migrations")
			exec(t, db, fmt.Sprintf("INSERT INTO schema_migrations VALUES (%d, true)", step))
			if err := sqliteUp(t.Context(), db, steps); err != nil {
				t.Fatalf("dirty at step %d, taken: %v: %v", step, taken, err)
			}
			wantSchema(t, db, steps)
		}
	}
}

// A process that is killed while it migrates leaves a database that the next one can open, whatever part of the log has
// reached the file, and whichever version it had before.
func TestKilledWhileMigrating(t *testing.T) {
	const page = 2048
	layout := fmt.Sprintf("page_size(%d)", page) + url.QueryEscape("; PRAGMA auto_vacuum(incremental)") // as the store makes its files
	steps := release(t, 2)
	for _, from := range append([]int{0}, versions(t, steps)...) {
		dir := t.TempDir()
		open := func(name string) *sql.DB {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, name)+"?_pragma="+layout+"&_journal_mode=wal&_pragma=wal_autocheckpoint(0)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			db.SetMaxOpenConns(1)
			return db
		}
		db := open("original")
		migrateTo(t, db, steps, from)
		if err := sqliteUp(t.Context(), db, steps); err != nil {
			t.Fatal(err)
		}
		file, log := read(t, filepath.Join(dir, "original")), read(t, filepath.Join(dir, "original-wal"))
		const header, frame = 32, 24 + page // https://www.sqlite.org/fileformat.html#the_write_ahead_log
		if mode := texts(t, db, "PRAGMA auto_vacuum"); mode[0] != "2" {
			t.Fatalf("auto_vacuum is %s", mode)
		}
		if len(log) < header+2*frame {
			t.Fatalf("nothing of %d bytes is in the log", len(file)+len(log))
		}
		for n := 0; n <= len(log); n += frame / 2 {
			name := fmt.Sprintf("%d-%d", from, n)
			write(t, filepath.Join(dir, name), file)
			write(t, filepath.Join(dir, name+"-wal"), log[:n])
			left := open(name)
			if err := sqliteUp(t.Context(), left, steps); err != nil {
				t.Fatalf("from version %d, with %d of %d bytes of the log: %v", from, n, len(log), err)
			}
			wantSchema(t, left, steps)
			left.Close()
		}
	}
}

// versions returns the numbers of the steps in ascending order.
func versions(t *testing.T, steps fs.FS) (all []int) {
	t.Helper()
	src, err := iofs.New(steps, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	for v, err := src.First(); err == nil; v, err = src.Next(v) {
		all = append(all, int(v))
	}
	return all
}

// migrateTo brings an empty database to a version; 0 leaves it empty.
func migrateTo(t *testing.T, db *sql.DB, steps fs.FS, version int) {
	t.Helper()
	if err := sqliteIn(t.Context(), db, func(d driver) error {
		src, err := iofs.New(steps, "sqlite")
		if err != nil {
			return err
		}
		return d.upTo(src, 0, version)
	}); err != nil {
		t.Fatal(err)
	}
}

// wantSchema checks that a database has the newest tables, their first row, and the right version.
func wantSchema(t *testing.T, db *sql.DB, steps fs.FS) {
	t.Helper()
	fresh := openSQLite(t)
	if err := sqliteUp(t.Context(), fresh, steps); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"SELECT version || ' ' || dirty FROM schema_migrations", "SELECT count(*) || '' FROM meta"} {
		if diff := cmp.Diff(texts(t, fresh, query), texts(t, db, query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if diff := cmp.Diff(schema(t, fresh), schema(t, db)); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	fresh.Close()
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// After some errors, such as a full disk, SQLite has rolled the transaction back itself. The reported error has the
// reason, and not that there was nothing left to roll back.
func TestGivenUpByTheDatabase(t *testing.T) {
	db := openSQLite(t)
	err := sqliteUp(t.Context(), db, fstest.MapFS{"sqlite/0001_a.up.sql": {Data: []byte("CREATE TABLE a (b UNIQUE); INSERT OR ROLLBACK INTO a VALUES (1), (1)")}})
	if err == nil || !strings.Contains(err.Error(), "UNIQUE") || strings.Contains(err.Error(), "no transaction is active") {
		t.Errorf("it says: %v", err)
	}
	if got := schema(t, db); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
}
