// Package sqlitetest opens a store for a test: a temporary SQLite file instead of a fake.
package sqlitetest

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/sqlstore"
)

// Open opens an empty store that is not durable and logs nothing. It is closed when the test ends; an error of that
// fails the test.
func Open(t testing.TB) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"), Synchronous: "off",
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
