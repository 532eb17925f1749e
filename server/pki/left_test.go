package pki

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// What servers shared goes on where one has the database alone: the data directory gets the keys that it lacks, and the rows go, so that keys which are
// exchanged from then on do not come back. A data directory with other keys stays as it is, and so do the rows.
func TestLeftKeys(t *testing.T) {
	store := sqlitetest.Open(t)
	shared := t.TempDir()
	if _, err := openShared(t, shared, store, &bytes.Buffer{}).TokenKeys(TokenKeyOptions{Issuer: "https://x"}); err != nil {
		t.Fatal(err)
	}
	files := func(dir string) (content string) {
		t.Helper()
		for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.key", "sa.key"} {
			data, err := os.ReadFile(filepath.Join(dir, "pki", name))
			if err != nil {
				t.Fatal(err)
			}
			content += string(data)
		}
		return content
	}
	left := func() (n int) {
		t.Helper()
		for _, key := range []resources.Key{clientAuthority.key(), proxyAuthority.key(), tokenKeysKey} {
			if _, err := store.Get(t.Context(), key, resources.At{Match: resources.MostRecent}); err == nil {
				n++
			}
		}
		return n
	}
	alone := func(dir string, rows *resources.Rows) (log string) {
		t.Helper()
		var b bytes.Buffer
		p, err := Open(Options{DataDir: dir, Names: []string{"localhost"}, Left: rows, Logger: slog.New(slog.NewTextHandler(&b, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.TokenKeys(TokenKeyOptions{Issuer: "https://x"}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}

	another := t.TempDir()
	alone(another, nil)
	before := files(another)
	if log := alone(another, resources.NewRows(store)); files(another) != before || left() != 3 || strings.Count(log, "other keys") != 3 {
		t.Errorf("beside other keys: %d rows are left, and it said %s", left(), log)
	}

	spoiled := sqlitetest.Open(t)
	for _, key := range []resources.Key{clientAuthority.key(), proxyAuthority.key(), tokenKeysKey} {
		if _, err := resources.NewRows(spoiled).Create(t.Context(), key, "Spoiled", map[string]string{"key": "none"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if log := alone(another, resources.NewRows(spoiled)); files(another) != before || strings.Count(log, "cannot be read") != 3 {
		t.Errorf("beside rows that cannot be read: %s", log)
	}
	if _, err := Open(Options{DataDir: t.TempDir(), Names: []string{"localhost"}, Left: resources.NewRows(spoiled)}); err == nil {
		t.Error("where only the row has a key, and cannot be read, another one is made")
	}

	empty := t.TempDir()
	if alone(empty, resources.NewRows(store)); files(empty) != files(shared) || left() != 0 {
		t.Errorf("an empty data directory has other keys than those of the database, of which %d are left", left())
	}
}
