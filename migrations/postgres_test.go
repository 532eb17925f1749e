package migrations

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

func openPostgres(t *testing.T) *sql.DB {
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
	db, err := sql.Open("pgx", c.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// postgresSchema returns what the tables of a Postgres database look like.
func postgresSchema(t *testing.T, db *sql.DB) []string {
	t.Helper()
	return texts(t, db, `SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' ||
		coalesce(column_default, '') || ' ' || coalesce(collation_name, '') FROM information_schema.columns
		WHERE table_schema = current_schema()
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1`)
}

// The steps of Postgres: up, down, up; by many at once; refused when the schema is newer or dirty.
func TestPostgres(t *testing.T) {
	ctx := context.Background()
	db := openPostgres(t)
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

// downPostgres takes every step back.
func downPostgres(t *testing.T, db *sql.DB) {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	src, err := iofs.New(files, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", src, "postgres", postgresDriver{ctx: context.Background(), tx: tx})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Down(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}
