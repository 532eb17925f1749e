package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/golang-migrate/migrate/v4/source/iofs"
	_ "modernc.org/sqlite" // for the scratch database
)

// SQLite brings the schema of a SQLite database up to date. It uses one transaction, which includes the version, so a
// process that is killed leaves either the old schema or the new one. Errors: *DirtyError, *NewerError, and those of
// the database.
func SQLite(ctx context.Context, db *sql.DB) error { return sqliteUp(ctx, db, files) }

func sqliteUp(ctx context.Context, db *sql.DB, files fs.FS) error {
	return sqliteIn(ctx, db, func(d driver) error {
		if err := settleDirty(d, files); err != nil {
			return fmt.Errorf("settle the schema version: %w", err)
		}
		return up(files, "sqlite", d)
	})
}

// sqliteIn calls f in a transaction in which the table of the version exists.
func sqliteIn(ctx context.Context, db *sql.DB, f func(driver) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	d := driver{ctx, conn}
	// IMMEDIATE takes the write lock at once: a transaction that upgrades later could fail half-way.
	if err := d.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	defer func() {
		if err != nil {
			d.ctx = context.WithoutCancel(ctx)
			_ = d.exec("ROLLBACK") // on a full disk, for example, SQLite has rolled back already, and fails; err has the reason
		}
	}()
	for _, statement := range []string{ // as earlier releases created them, and expect them
		"CREATE TABLE IF NOT EXISTS schema_migrations (version uint64,dirty bool)",
		"CREATE UNIQUE INDEX IF NOT EXISTS version_unique ON schema_migrations (version)",
	} {
		if err := d.exec(statement); err != nil {
			return fmt.Errorf("create the tables: %w", err)
		}
	}
	if err := f(d); err != nil {
		return err
	}
	return d.exec("COMMIT")
}

// settleDirty determines the outcome of a step of an earlier release, which marked the schema dirty, ran the step, and
// marked it clean, in three transactions: a server that was killed in between left a database that no server would
// open. The step itself was one transaction, so the tables are the old or the new ones; if they are exactly one of the
// two, the outcome is known. Otherwise the tables were changed by hand, and the mark stays.
func settleDirty(d driver, files fs.FS) error {
	version, dirty, err := d.version()
	if err != nil || !dirty {
		return err
	}
	before, known, err := stepBefore(files, version)
	if err != nil || !known {
		return err
	}
	have, err := sqliteTables(d)
	if err != nil {
		return err
	}
	var fits []int
	for _, candidate := range []int{before, version} {
		want, err := tablesAt(d.ctx, files, candidate)
		if err != nil {
			return err
		}
		if slices.Equal(have, want) {
			fits = append(fits, candidate)
		}
	}
	if len(fits) == 0 {
		return nil
	}
	return d.setVersion(fits[0]) // if both versions have the same tables, the previous one: repeating a step that changes nothing is harmless
}

// stepBefore returns the version before another one, 0 before the first, if that is known.
func stepBefore(files fs.FS, version int) (before int, known bool, err error) {
	src, err := iofs.New(files, "sqlite")
	if err != nil {
		return 0, false, err
	}
	newest, err := last(src)
	if err != nil || version > newest || version < 1 {
		return 0, false, err
	}
	previous, err := src.Prev(uint(version))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, true, nil
	}
	return int(previous), true, err
}

// tablesAt returns the tables of a version (0: none), by creating them in a scratch database.
func tablesAt(ctx context.Context, files fs.FS, version int) (tables []string, err error) {
	scratch, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	scratch.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, scratch.Close()) }()
	err = sqliteIn(ctx, scratch, func(d driver) error {
		src, err := iofs.New(files, "sqlite")
		if err != nil {
			return err
		}
		if err := d.upTo(src, 0, version); err != nil {
			return err
		}
		tables, err = sqliteTables(d)
		return err
	})
	return tables, err
}

// SQLiteTables returns the tables of a SQLite database of a version, in the form of SQLiteTablesSQL.
func SQLiteTables(ctx context.Context, version int) ([]string, error) {
	return tablesAt(ctx, files, version)
}

// SQLiteTablesSQL returns the statements that would create the existing tables, and their indexes and triggers, except
// for the table of the version. It leaves out the views that servers create and remove themselves.
const SQLiteTablesSQL = `SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema
WHERE name NOT LIKE 'sqlite_%' AND tbl_name <> 'schema_migrations' AND (type <> 'view' OR name = 'objects') ORDER BY type, name`

func sqliteTables(d driver) (tables []string, err error) {
	rows, err := d.tx.QueryContext(d.ctx, SQLiteTablesSQL)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		tables = append(tables, text)
	}
	return tables, rows.Err()
}
