package migrations

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
)

// execer is a transaction, or a connection that is in one.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// driver takes steps in a transaction, which is its lock: what golang-migrate calls dirty is never seen outside.
type driver struct {
	ctx context.Context
	tx  execer
}

var _ database.Driver = driver{}

func (driver) Open(string) (database.Driver, error) { return nil, errors.ErrUnsupported }
func (driver) Close() error                         { return nil }
func (driver) Lock() error                          { return nil }
func (driver) Unlock() error                        { return nil }
func (driver) Drop() error                          { return errors.ErrUnsupported }

func (d driver) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	return d.exec(string(text))
}

func (d driver) SetVersion(version int, dirty bool) error {
	if err := d.exec("DELETE FROM schema_migrations"); err != nil {
		return err
	}
	if version == database.NilVersion {
		return nil
	}
	return d.exec("INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)", version, dirty)
}

func (d driver) Version() (version int, dirty bool, err error) {
	err = d.tx.QueryRowContext(d.ctx, "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

func (d driver) exec(statement string, args ...any) error {
	_, err := d.tx.ExecContext(d.ctx, statement, args...)
	return err
}
