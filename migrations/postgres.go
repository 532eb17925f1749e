package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
)

// lockID is the advisory lock under which the schema is changed: "rowlock" in ASCII. Control planes in other schemas of
// the database wait for it, too, which costs them milliseconds once.
const lockID = 0x726f776c6f636b

// stepLockTimeout is how long a step waits for readers of a table that it changes.
const stepLockTimeout = "2s"

// lockTimeout is how long a server waits for another one that changes the schema, before its caller logs that and tries
// again. idleTimeout is how long a server may hold the lock while it does nothing, because it was stopped or its network
// is gone, before the database ends its transaction. Tests shorten them.
var lockTimeout, idleTimeout = "10s", "10s"

// Postgres brings the tables in a schema up to date; without a name, in the first schema of the search path. It uses
// one transaction, which holds an advisory lock: of servers that start together only one runs the steps, a step that
// fails leaves nothing behind, and a pooler in between does not matter. Errors: *DirtyError, *NewerError, and those of
// the database.
func Postgres(ctx context.Context, db *sql.DB, schema string) error {
	return postgresUp(ctx, db, schema, files)
}

func postgresUp(ctx context.Context, db *sql.DB, schema string, files fs.FS) (err error) {
	// READ COMMITTED: what follows the lock sees the steps of the server that it waited for.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	const bound = "SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)"
	if _, err := tx.ExecContext(ctx, bound, lockTimeout, idleTimeout); err != nil {
		return fmt.Errorf("bound the waiting for other servers: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lockID)); err != nil {
		return fmt.Errorf("lock the migrations: %w", err)
	}
	// A step that waits behind a long backup blocks all writers: it gives up, and the caller that opens the store tries
	// again.
	if _, err := tx.ExecContext(ctx, "SELECT set_config('lock_timeout', $1, true)", stepLockTimeout); err != nil {
		return fmt.Errorf("bound the waiting for tables: %w", err)
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
	if !exists { // IF NOT EXISTS needs the privilege to create even if the table exists
		if _, err := tx.ExecContext(ctx, "CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, dirty BOOLEAN NOT NULL)"); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
	}
	if err := up(files, "postgres", driver{ctx, tx}); err != nil {
		return err
	}
	return tx.Commit()
}
