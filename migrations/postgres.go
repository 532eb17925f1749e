package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/golang-migrate/migrate/v4/database"
)

// lockID is the advisory lock under which the schema is changed: "rowlock" in ASCII. Control planes in other schemas of
// the database wait for it, too, which costs them milliseconds once.
const lockID = 0x726f776c6f636b

// Postgres brings the tables in a schema up to date, in the first one of the search path without a name. All of it is one
// transaction, which holds an advisory lock: servers that start together do it once, a step that fails leaves nothing
// behind, and a pooler between the server and the database does not matter. Errors: *DirtyError, *NewerError, and those
// of the database.
func Postgres(ctx context.Context, db *sql.DB, schema string) error {
	return postgresUp(ctx, db, schema, files)
}

func postgresUp(ctx context.Context, db *sql.DB, schema string, files fs.FS) (err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lockID)); err != nil {
		return fmt.Errorf("lock the migrations: %w", err)
	}
	if schema != "" {
		if _, err := tx.ExecContext(ctx, "SELECT set_config('search_path', quote_ident($1), true)", schema); err != nil {
			return fmt.Errorf("choose the schema: %w", err)
		}
	}
	var exists bool
	const find = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_migrations')"
	if err := tx.QueryRowContext(ctx, find).Scan(&exists); err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if !exists { // not IF NOT EXISTS, which asks for the privilege to create even when there is nothing to do
		if _, err := tx.ExecContext(ctx, "CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, dirty BOOLEAN NOT NULL)"); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
	}
	if err := up(files, "postgres", postgresDriver{ctx: ctx, tx: tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// postgresDriver runs migrations in a transaction, which is its lock.
type postgresDriver struct {
	ctx context.Context
	tx  *sql.Tx
}

var _ database.Driver = postgresDriver{}

func (postgresDriver) Open(string) (database.Driver, error) { return nil, errors.ErrUnsupported }
func (postgresDriver) Close() error                         { return nil }
func (postgresDriver) Lock() error                          { return nil }
func (postgresDriver) Unlock() error                        { return nil }
func (postgresDriver) Drop() error                          { return errors.ErrUnsupported }

func (d postgresDriver) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	_, err = d.tx.ExecContext(d.ctx, string(text))
	return err
}

func (d postgresDriver) SetVersion(version int, dirty bool) error {
	if _, err := d.tx.ExecContext(d.ctx, "DELETE FROM schema_migrations"); err != nil {
		return err
	}
	if version == database.NilVersion {
		return nil
	}
	_, err := d.tx.ExecContext(d.ctx, "INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)", version, dirty)
	return err
}

func (d postgresDriver) Version() (version int, dirty bool, err error) {
	err = d.tx.QueryRowContext(d.ctx, "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}
