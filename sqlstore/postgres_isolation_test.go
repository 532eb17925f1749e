package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// What waits for a lock sees what its holder has written, whatever isolation the database has for transactions that do
// not ask for one.
func TestPostgresSeesWhatItWaitedFor(t *testing.T) {
	ctx := testContext(t)
	o := postgresOptions(t)
	o.URL += map[bool]string{true: "&", false: "?"}[strings.Contains(o.URL, "?")] + "default_transaction_isolation=serializable"
	target, err := OpenTarget(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	holder, look := admin(t, o.URL), admin(t, o.URL)
	if _, err := holder.Exec(ctx, "SET search_path = "+nameSQL(o.Schema)); err != nil {
		t.Fatal(err)
	}
	await := func(hold, blocked string, f func() error) error {
		t.Helper()
		tx, err := holder.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, hold); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- f() }()
		awaitSQL(ctx, t, look, "EXISTS (SELECT 1 FROM pg_stat_activity WHERE query LIKE '"+blocked+"' AND wait_event_type = 'Lock')")
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		return <-done
	}
	from := sqliteOptions(t)
	openStore(t, from)
	for name, open := range map[string]func() (interface{ Close() error }, error){
		"restore": func() (interface{ Close() error }, error) { return OpenTarget(ctx, o) },
		"migrate": func() (interface{ Close() error }, error) { return OpenMove(ctx, from, o) },
	} {
		// As a server that begins to work there.
		err := await("WITH held AS (SELECT FROM meta FOR UPDATE) INSERT INTO servers (id, pid) SELECT 1, count(*) FROM held", "SELECT FROM meta FOR UPDATE", func() error {
			opened, err := open()
			if err == nil {
				err = opened.Close()
			}
			return err
		})
		if !errors.Is(err, ErrNotEmpty) {
			t.Errorf("%s, into what has a server: %v", name, err)
		}
		if _, err := holder.Exec(ctx, "DELETE FROM servers"); err != nil {
			t.Fatal(err)
		}
	}
	o.ObjectHistory = ObjectHistory{Age: time.Hour}
	s := openStore(t, o)
	s.recorder.mu.Lock() // the janitor records nothing
	defer s.recorder.mu.Unlock()
	mustCommit(t, s, createMap(t, "a"))
	if err := await("UPDATE recording SET bytes = bytes", "%FROM recording FOR UPDATE", func() error {
		_, err := s.recorder.step(context.WithoutCancel(ctx), true)
		return err
	}); err != nil {
		t.Errorf("the object history, after another server's step: %v", err)
	}
}
