package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4/source/iofs"
)

// release returns the steps of a later binary: the present ones, and so many more.
func release(t *testing.T, more int) fs.FS {
	t.Helper()
	steps := fstest.MapFS{}
	for _, dir := range []string{"sqlite", "postgres"} {
		entries, err := fs.ReadDir(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			data, err := fs.ReadFile(files, dir+"/"+e.Name())
			if err != nil {
				t.Fatal(err)
			}
			steps[dir+"/"+e.Name()] = &fstest.MapFile{Data: data}
		}
		src, err := iofs.New(files, dir)
		if err != nil {
			t.Fatal(err)
		}
		present, err := last(src)
		if err != nil {
			t.Fatal(err)
		}
		for i := range more {
			name := fmt.Sprintf("%s/%04d_later", dir, present+1+i)
			steps[name+".up.sql"] = &fstest.MapFile{Data: fmt.Appendf(nil, "ALTER TABLE changes ADD COLUMN later%d TEXT", i)}
			steps[name+".down.sql"] = &fstest.MapFile{Data: fmt.Appendf(nil, "ALTER TABLE changes DROP COLUMN later%d", i)}
		}
	}
	return steps
}

// A binary works with its own version of the schema and with the next one, which it does not change, and with no other.
func TestRollingUpgrade(t *testing.T) {
	postgres := openPostgres(t)
	for name, on := range map[string]struct {
		db *sql.DB
		up func(*sql.DB, fs.FS) error
	}{
		"SQLite":   {openSQLite(t), func(db *sql.DB, files fs.FS) error { return sqliteUp(context.Background(), db, files) }},
		"Postgres": {postgres, func(db *sql.DB, files fs.FS) error { return postgresUp(context.Background(), db, "", files) }},
	} {
		t.Run(name, func(t *testing.T) {
			version := func() (v int) {
				if err := on.db.QueryRow("SELECT version FROM schema_migrations").Scan(&v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			if err := on.up(on.db, release(t, 0)); err != nil {
				t.Fatal(err)
			}
			before := version()
			for _, binary := range []int{1, 0, 1} { // the next one, and then a restarted older server
				if err := on.up(on.db, release(t, binary)); err != nil {
					t.Errorf("release %d: %v", binary, err)
				}
				if got := version(); got != before+1 {
					t.Errorf("release %d: version %d", binary, got)
				}
			}
			if err := on.up(on.db, release(t, 2)); err != nil {
				t.Fatal(err)
			}
			var newer *NewerError
			if err := on.up(on.db, release(t, 0)); !errors.As(err, &newer) || newer.Version != before+2 || newer.Known != before {
				t.Errorf("two versions behind: %v", err)
			}
			if err := on.up(on.db, release(t, 1)); err != nil || version() != before+2 {
				t.Errorf("one version behind: %v", err)
			}
		})
	}
}

// Version 1 of the tables would misread what SQLite databases have from version 3 on: it refuses them.
func TestFirstVersionRefusesTheThird(t *testing.T) {
	db := openSQLite(t)
	if err := SQLite(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	first := fstest.MapFS{}
	for _, name := range []string{"sqlite/0001_store.up.sql", "sqlite/0001_store.down.sql"} {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		first[name] = &fstest.MapFile{Data: data}
	}
	if err := sqliteUp(t.Context(), db, first); !errors.As(err, new(*NewerError)) {
		t.Errorf("got %v, want NewerError", err)
	}
}
