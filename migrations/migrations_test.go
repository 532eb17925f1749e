package migrations

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
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

// schema returns what the tables of a SQLite database look like.
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

// Every step up has its step down, and a second way up leads to the same tables.
func TestUpDownUp(t *testing.T) {
	db := openSQLite(t)
	if err := SQLite(db); err != nil {
		t.Fatal(err)
	}
	want := schema(t, db)
	src, err := iofs.New(files, "sqlite")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", src, "sqlite", driver)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Down(); err != nil {
		t.Fatal(err)
	}
	if left := schema(t, db); len(left) != 2 { // schema_migrations and its index
		t.Errorf("left after the way down: %v", left)
	}
	if err := SQLite(db); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, schema(t, db)); diff != "" {
		t.Errorf("second way up (-first +second):\n%s", diff)
	}
	if err := SQLite(db); err != nil {
		t.Errorf("with nothing to do: %v", err)
	}
}

// The numbers and names are the same for both databases.
func TestSameSteps(t *testing.T) {
	names := func(dir string) (out []string) {
		entries, err := fs.ReadDir(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			out = append(out, e.Name())
		}
		return out
	}
	if diff := cmp.Diff(names("sqlite"), names("postgres")); diff != "" {
		t.Errorf("steps (-sqlite +postgres):\n%s", diff)
	}
}

// A schema that a newer program made is refused, and left alone.
func TestNewerIsRefused(t *testing.T) {
	db := openSQLite(t)
	if err := SQLite(db); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 9999")
	var newer *NewerError
	if err := SQLite(db); !errors.As(err, &newer) || newer.Version != 9999 {
		t.Fatalf("got %v, want a NewerError of version 9999", err)
	}
	var version int
	if err := db.QueryRow("SELECT version FROM schema_migrations").Scan(&version); err != nil || version != 9999 {
		t.Errorf("the version became %d, %v", version, err)
	}
}

// A schema that a migration left half-made is refused.
func TestDirtyIsRefused(t *testing.T) {
	db := openSQLite(t)
	if err := SQLite(db); err != nil {
		t.Fatal(err)
	}
	exec(t, db, "UPDATE schema_migrations SET dirty = true")
	var dirty *DirtyError
	if err := SQLite(db); !errors.As(err, &dirty) {
		t.Fatalf("got %v, want a DirtyError", err)
	}
}
