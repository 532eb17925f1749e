package main

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/sqlstore"
)

// Commands do not upgrade tables of an older version: a server of that version may run beside them, and could not start again on upgraded tables.
// Commands that only read work with older tables.
func TestCommandsChangeNoTables(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rowlock.db")
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: "sqlite://" + path})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec("ALTER TABLE meta DROP COLUMN ages; UPDATE schema_migrations SET version = version - 1")
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	version := func() (v int) {
		if err := db.QueryRow("SELECT version FROM schema_migrations").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := version()
	backup := filepath.Join(dir, "backup")
	for _, args := range [][]string{
		{"token", "list"}, {"token", "create", "--user", "jane", "--ttl", "1h"},
		{"backup", backup}, {"verify"}, {"verify", backup}, {"sql", "SELECT count(*) FROM pods"},
	} {
		code, stdout, stderr := command(t, append(args, "--data-dir", dir, "--datastore", "sqlite://"+path)...)
		if refused := strings.Contains(stderr, "only servers bring them to"); refused != (args[0] == "token") || refused != (code != 0) {
			t.Errorf("%s: %d, %s%s", args, code, stdout, stderr)
		}
		if v := version(); v != before {
			t.Errorf("%s: made version %d of %d", args, v, before)
		}
	}
}
