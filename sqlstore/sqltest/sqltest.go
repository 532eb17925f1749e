// Package sqltest queries the databases of tests in SQL, as clients do that do not know Rowlock.
package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver for Postgres
	_ "modernc.org/sqlite"             // and the one for SQLite
)

// Ask runs a statement in the database at a URL of the form of --datastore; views are found without their schema.
// schema is the schema of the tables, in Postgres. It returns the rows with their values as text; NULL is <nil>.
func Ask(ctx context.Context, url, schema, statement string) (rows [][]string, err error) {
	db, err := open(ctx, url, schema)
	if err != nil {
		return nil, err
	}
	defer db.Close() //nolint:errcheck // it was only read
	found, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer found.Close() //nolint:errcheck // Err reports the error
	columns, err := found.Columns()
	if err != nil {
		return nil, err
	}
	for found.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		row := make([]string, len(columns))
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			row[i] = fmt.Sprint(v)
		}
		rows = append(rows, row)
	}
	return rows, found.Err()
}

// HoldWriters makes all writers of the database wait until release is called.
func HoldWriters(ctx context.Context, url, schema string) (release func() error, err error) {
	db, err := open(ctx, url, schema)
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx) // the pool would close a connection with a transaction
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	release = func() error { return errors.Join(conn.Close(), db.Close()) } // which ends the transaction
	statements := []string{"BEGIN", "SELECT FROM meta FOR UPDATE"}
	if isFile(url) {
		statements = []string{"BEGIN IMMEDIATE"}
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

func isFile(url string) bool { return strings.HasPrefix(url, "sqlite://") }

// open opens a database with one connection.
func open(ctx context.Context, url, schema string) (*sql.DB, error) {
	driver, name := "pgx", url
	if isFile(url) {
		driver, name = "sqlite", strings.TrimPrefix(url, "sqlite://")+"?_busy_timeout=10000"
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if !isFile(url) {
		if _, err := db.ExecContext(ctx, fmt.Sprintf(`SET search_path = "%s_views", "%s"`, schema, schema)); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}
