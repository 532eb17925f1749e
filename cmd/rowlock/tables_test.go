package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/sqltest"
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
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	ask := func(statement string) [][]string {
		t.Helper()
		rows, err := sqltest.Ask(t.Context(), "sqlite://"+path, "", statement)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	down, err := os.ReadFile("../../migrations/sqlite/0009_once.down.sql")
	if err != nil {
		t.Fatal(err)
	}
	ask(string(down))
	ask("UPDATE schema_migrations SET version = version - 1")
	version := func() string { return ask("SELECT version FROM schema_migrations")[0][0] }
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
			t.Errorf("%s: made version %s of %s", args, v, before)
		}
	}
}

// Commands create neither a schema nor tables, where the name of a schema is mistyped, say.
func TestCommandsCreateNoTables(t *testing.T) {
	c := newPostgres(t)
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(keys, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"+
		"resources: [{resources: [secrets], providers: [{identity: {}}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"token", "list"}, {"token", "create", "--user", "jane"}, {"token", "revoke", "x"}, {"keys", "add"}, {"keys", "replace", "ca"},
		{"rewrite", "--encryption-provider-config", keys}, {"backup", filepath.Join(t.TempDir(), "backup")}, {"verify"}, {"sql", "SELECT 1"},
	} {
		code, stdout, stderr := command(t, append(args, "--data-dir", t.TempDir(), "--datastore", c.URL(), "--schema", "none")...)
		if code != exitFailure || !strings.Contains(stderr, "has no tables of rowlock") {
			t.Errorf("%s: %d, %s%s", args, code, stdout, stderr)
		}
		rows, err := sqltest.Ask(t.Context(), c.URL(), "public", "SELECT nspname FROM pg_namespace WHERE nspname = 'none'")
		if err != nil || len(rows) > 0 {
			t.Fatalf("%s: made the schemas %v, %v", args, rows, err)
		}
	}
}
