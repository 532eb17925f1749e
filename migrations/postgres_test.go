package migrations

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", startPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// startPostgres starts a Postgres and returns its URL.
func startPostgres(t *testing.T) string {
	t.Helper()
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c.URL()
}

// postgresSchema returns the definitions of a Postgres database's tables.
func postgresSchema(t *testing.T, db *sql.DB) []string {
	t.Helper()
	return texts(t, db, `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' ||
		coalesce(column_default, '') || ' ' || coalesce(collation_name, '') FROM information_schema.columns
		WHERE table_schema = current_schema()
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1`)
}

// The steps of Postgres run up, down and up, concurrently as well, whatever isolation the database has for transactions
// that do not ask for one; a newer or dirty schema is refused.
func TestPostgres(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t)
	exec(t, db, "ALTER DATABASE postgres SET default_transaction_isolation = serializable")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := Postgres(ctx, db, ""); err != nil {
				t.Errorf("one of many at once: %v", err)
			}
		})
	}
	wg.Wait()
	want := postgresSchema(t, db)
	downPostgres(t, db)
	if left := postgresSchema(t, db); len(left) != 3 { // the columns of schema_migrations and its index
		t.Errorf("left after the way down: %v", left)
	}
	if err := Postgres(ctx, db, ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, postgresSchema(t, db)); diff != "" {
		t.Errorf("second way up (-first +second):\n%s", diff)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 9999")
	if err := Postgres(ctx, db, ""); !errors.As(err, new(*NewerError)) {
		t.Errorf("of a newer schema: %v", err)
	}
	exec(t, db, "UPDATE schema_migrations SET version = 1, dirty = true")
	if err := Postgres(ctx, db, ""); !errors.As(err, new(*DirtyError)) {
		t.Errorf("of a dirty schema: %v", err)
	}
}

// downPostgres runs every step down.
func downPostgres(t *testing.T, db *sql.DB) {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := down(driver{context.Background(), tx}, "postgres"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// cutConn is a connection that breaks at the nth write.
type cutConn struct {
	net.Conn
	left *atomic.Int64
}

func (c cutConn) Write(b []byte) (int, error) {
	if c.left.Add(-1) < 0 {
		c.Conn.Close()
	}
	return c.Conn.Write(b)
}

// A connection that breaks at any message of a migration leaves a database that the next server can start with.
func TestPostgresCutWhileMigrating(t *testing.T) {
	ctx := t.Context()
	config, err := pgx.ParseConfig(startPostgres(t))
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	steps := release(t, 2)
	if err := postgresUp(ctx, db, "", steps); err != nil {
		t.Fatal(err)
	}
	want := postgresSchema(t, db)
	var left atomic.Int64
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return cutConn{conn, &left}, nil
	}
	failed := 0
	for n := int64(0); ; n++ {
		exec(t, db, "DROP TABLE IF EXISTS revisions, recording, servers, changes, objects, meta, schema_migrations")
		left.Store(n)
		cut := stdlib.OpenDB(*config)
		cut.SetMaxOpenConns(1)
		err := postgresUp(ctx, cut, "", steps)
		cut.Close()
		if uncut := left.Load() > 0; err == nil && uncut {
			break
		}
		failed++
		if err := postgresUp(ctx, db, "", steps); err != nil {
			t.Fatalf("after message %d: %v", n, err)
		}
		if diff := cmp.Diff(want, postgresSchema(t, db)); diff != "" {
			t.Fatalf("after message %d (-want +got):\n%s", n, diff)
		}
		if dirty := texts(t, db, "SELECT dirty::text FROM schema_migrations"); !slices.Equal(dirty, []string{"false"}) {
			t.Errorf("after message %d: dirty is %v", n, dirty)
		}
	}
	if failed < 10 {
		t.Errorf("it was cut only %d times", failed)
	}
}

// stuckFiles are migrations that cannot be read until they are released.
type stuckFiles struct {
	fs.FS
	stuck, released chan struct{}
}

func (f stuckFiles) Open(name string) (fs.File, error) {
	select {
	case <-f.stuck:
	default:
		close(f.stuck)
	}
	<-f.released
	return f.FS.Open(name)
}

// A server that gets stuck while it changes the schema stops no other one for ever: those that wait are told so, and
// the database ends the stuck one's transaction.
func TestPostgresStuckWhileMigrating(t *testing.T) {
	defer func(lock, idle string) { lockTimeout, idleTimeout = lock, idle }(lockTimeout, idleTimeout)
	lockTimeout, idleTimeout = "50ms", "1h"
	ctx := t.Context()
	db := openPostgres(t)
	for _, ends := range []bool{false, true} {
		if ends {
			lockTimeout, idleTimeout = "1h", "200ms"
		}
		first := stuckFiles{files, make(chan struct{}), make(chan struct{})}
		done := make(chan error)
		go func() { done <- postgresUp(ctx, db, "", first) }()
		<-first.stuck
		err := Postgres(ctx, db, "")
		var refused *pgconn.PgError
		if waited := errors.As(err, &refused) && refused.Code == "55P03"; waited == ends || err != nil && ends {
			t.Errorf("beside a stuck server that the database ends (%t): %v", ends, err)
		}
		close(first.released)
		if err := <-done; (err == nil) == ends {
			t.Errorf("the stuck server that the database ends (%t): %v", ends, err)
		}
		exec(t, db, "DROP TABLE IF EXISTS revisions, recording, servers, changes, objects, meta, schema_migrations")
	}
}
