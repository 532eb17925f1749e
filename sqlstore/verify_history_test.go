package sqlstore

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/resources"
)

const damaged = "(configmaps/default/d): what the object history kept of a write is damaged"

var historyDamages = []damage{
	both("none", "SELECT 1", nothing),
	both("a write that could not be read", "UPDATE revisions SET data = substr(data, 1, 0), fields = NULL, uid = '' WHERE name = 'd'", nothing),
	both("no more than was there at the start", "DELETE FROM revisions; UPDATE recording SET bytes = 0", nothing),
	both("the size", "UPDATE recording SET bytes = bytes + 1000000000", "bytes of object history"),
	both("a write is lost", "DELETE FROM revisions WHERE name = 'd'", "bytes of object history"),
	both("it has come to nothing", "DELETE FROM recording", "recording: has no row"),
	both("it is ahead of the counter", "UPDATE recording SET revision = revision + 1000000", "and the counter is at"),
	both("a write is ahead of the counter", "UPDATE revisions SET revision = revision + 1000000 WHERE name = 'd'", damaged),
	both("a write that could not be read is ahead of the counter", "UPDATE revisions SET data = substr(data, 1, 0), fields = NULL, uid = '', revision = revision + 1000000 WHERE name = 'd'",
		"revisions: has a write of revision"),
	both("it is behind itself", "UPDATE recording SET revision = 1", "recording: has come to revision 1, and the object history to"),
	both("an unknown operation", "UPDATE revisions SET op = 'x' WHERE name = 'd'", "(configmaps/default/d): says wrongly what was done, or who did it: unknown operation"),
	both("an author that is not JSON", "UPDATE revisions SET author = 'jane' WHERE name = 'd'", "(configmaps/default/d): says wrongly what was done, or who did it: changes.author"),
	both("no paths", "UPDATE revisions SET fields = NULL WHERE name = 'd'", "(configmaps/default/d): has no list of the paths"),
	both("paths that are not JSON", "UPDATE revisions SET fields = '[' WHERE name = 'd'", "(configmaps/default/d): has no list of the paths"),
	both("garbage", "UPDATE revisions SET data = substr(data, 2) WHERE name = 'd'", "(configmaps/default/d): what the object history kept of a write is damaged"),
	{"text in place of bytes", "UPDATE revisions SET data = 'text' WHERE name = 'd'", "", "in which data is of the type text"},
	both("another uid", "UPDATE revisions SET uid = 'x' WHERE name = 'd'", damaged),
	both("another author", `UPDATE revisions SET author = '{"user":"jone"}' WHERE name = 'd'`, damaged),
	both("another time", "UPDATE revisions SET at = at + 1 WHERE name = 'd'", damaged),
	both("other paths", "UPDATE revisions SET fields = '[\"data.x\"]' WHERE name = 'd'", damaged),
	both("another name", "UPDATE revisions SET name = 'e' WHERE name = 'd'", "(configmaps/default/e): what the object history kept of a write is damaged"),
	{"an object that is not JSON", "UPDATE revisions SET data = x'010400fbff00000078' WHERE name = 'd'", `UPDATE revisions SET data = '\x010400fbff00000078' WHERE name = 'd'`,
		"(configmaps/default/d): has an object that is not JSON"},
}

// Each kind of damage to the object history is found, and nothing is found if there is none.
func TestVerifyFindsDamagedHistory(t *testing.T) {
	fill := func(t *testing.T, s *Store) {
		t.Helper()
		workedWith(t, s)
		if kept := historyOf(t, s, resources.RevisionQuery{}); len(kept) < 6 {
			t.Fatalf("kept are %v", kept)
		}
	}
	history := ObjectHistory{Age: time.Hour}
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		h.close(t)
		o := h.options()
		o.ObjectHistory = history
		h.store = mustOpen(t, o)
		fill(t, h.store)
		db, err := sql.Open("sqlite", h.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		verifyDamaged(t, db, "", historyDamages, func(d damage) string { return d.sqlite })
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		h.close(t)
		o := h.options()
		o.ObjectHistory = history
		h.store = mustOpen(t, o)
		fill(t, h.store)
		config, err := postgresConfig(&o)
		if err != nil {
			t.Fatal(err)
		}
		db := stdlib.OpenDB(*config.ConnConfig)
		defer db.Close()
		verifyDamaged(t, db, setSearchPath(h.schema), historyDamages, func(d damage) string { return d.postgres })
	})
}
