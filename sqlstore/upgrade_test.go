package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/resources"
)

// During a rolling upgrade, servers of the previous release continue beside those of the next one, whose schema step
// adds columns; and they can be restarted.
func TestRollingUpgrade(t *testing.T) {
	h := newPostgresHarness(t)
	key := resources.Key{Resource: "configmaps", Namespace: "default", Name: "a"}
	write := func(s *Store, value string) {
		t.Helper()
		w := resources.Write{Op: resources.Create, Key: key,
			Draft: resources.Draft{Data: fmt.Appendf(nil, `{"metadata":{"resourceVersion":"0"},"v":%q}`, value)}}
		w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
		if o, err := s.Get(t.Context(), key, resources.At{Match: resources.MostRecent}); err == nil {
			w.Op, w.From = resources.Update, o.Revision
		}
		if _, err := s.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	w, err := h.store.Watch(t.Context(), resources.WatchOptions{Resource: key.Resource, After: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	write(h.store, "before")
	for _, statement := range []string{ // like a migration of the next version
		"ALTER TABLE meta ADD COLUMN later TEXT", "ALTER TABLE objects ADD COLUMN later BIGINT NOT NULL DEFAULT 7",
		"ALTER TABLE changes ADD COLUMN later JSONB", "UPDATE schema_migrations SET version = version + 1",
	} {
		if err := h.store.peers.db.run(statement).scan(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	h.reader = h.open(t) // a server of the older version, restarted
	write(h.store, "after")
	write(h.reader, "from the other")
	if _, err := h.store.Get(t.Context(), key, resources.At{Match: resources.MostRecent}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.janitor.prune(); err != nil {
		t.Error(err)
	}
	var seen []*resources.Event
	for len(seen) < 3 {
		events, _, err := w.Next(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			<-w.Ready()
		}
		seen = append(seen, events...)
	}
	if got := string(seen[2].Object.Data); len(seen) != 3 || got != fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"v":"from the other"}`, seen[2].Revision) {
		t.Errorf("%d events, the last of %s", len(seen), got)
	}
}

// Tables that are one version ahead are read, backed up and moved. Tables further ahead are refused: their counter or other parts of a store may be in
// places that this version does not read, and a backup or a move would contain only a part of them.
func TestSourceOfLaterTables(t *testing.T) {
	for name, options := range map[string]func(*testing.T) Options{"SQLite": sqliteOptions, "Postgres": postgresOptions} {
		t.Run(name, func(t *testing.T) {
			from, to := options(t), sqliteOptions(t)
			openStore(t, from)
			later := func() {
				t.Helper()
				var db *sql.DB
				if c, err := postgresConfig(&from); isPostgres(from.URL) && err == nil {
					db = stdlib.OpenDB(*c.ConnConfig)
				} else if db, err = sql.Open("sqlite", from.URL[len(sqliteScheme):]); err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				tx, err := db.BeginTx(t.Context(), nil)
				if err == nil && isPostgres(from.URL) {
					_, err = tx.Exec(setSearchPath(from.Schema))
				}
				if err == nil {
					_, err = tx.Exec("UPDATE schema_migrations SET version = version + 1")
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			later()
			if _, err := CheckMove(t.Context(), from, to); err != nil {
				t.Errorf("of the next version: %v", err)
			}
			later()
			_, planned := CheckMove(t.Context(), from, to)
			_, moved := OpenMove(t.Context(), from, to)
			for what, err := range map[string]error{"plan": planned, "move": moved} {
				if !errors.As(err, new(*migrations.NewerError)) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}
