// Package sqlitetest opens a store for a test: a temporary SQLite file is the fake.
package sqlitetest

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/sqlstore"
)

// Open opens an empty store that is not durable and says nothing. It is closed, and has to close well, when the test ends.
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
