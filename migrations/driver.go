package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	"github.com/golang-migrate/migrate/v4/source"
)

// execer is a transaction, or a connection that is in one.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// driver runs steps in a transaction, which also stores their version.
type driver struct {
	ctx context.Context
	tx  execer
}

// upTo runs the steps after a version (0: none) up to another version.
func (d driver) upTo(src source.Driver, from, to int) error {
	for from < to {
		next, err := stepAfter(src, from)
		if err != nil {
			return err
		}
		text, _, err := src.ReadUp(next)
		if err != nil {
			return err
		}
		if err := d.run(text); err != nil {
			return fmt.Errorf("step %d: %w", next, err)
		}
		from = int(next)
		if err := d.setVersion(from); err != nil {
			return err
		}
	}
	return nil
}

func stepAfter(src source.Driver, version int) (uint, error) {
	if version == 0 {
		return src.First()
	}
	return src.Next(uint(version))
}

func (d driver) run(step io.ReadCloser) error {
	text, err := io.ReadAll(step)
	if err := errors.Join(err, step.Close()); err != nil {
		return err
	}
	return d.exec(string(text))
}

// setVersion stores the version of the schema, in the form of golang-migrate.
func (d driver) setVersion(version int) error {
	if err := d.exec("DELETE FROM schema_migrations"); err != nil || version == 0 {
		return err
	}
	return d.exec("INSERT INTO schema_migrations (version, dirty) VALUES ($1, $2)", version, false)
}

func (d driver) version() (version int, dirty bool, err error) {
	err = d.tx.QueryRowContext(d.ctx, "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return version, dirty, err
}

func (d driver) exec(statement string, args ...any) error {
	_, err := d.tx.ExecContext(d.ctx, statement, args...)
	return err
}
