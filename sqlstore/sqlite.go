package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/migrations"
)

// sqliteReaders is how many reads of the file run at once. Reads are rare (history beyond the log in memory), short,
// and each connection has a page cache.
const sqliteReaders = 4

var sqliteDialect = dialect{
	// IMMEDIATE takes the write lock at once: a transaction that upgrades later could fail half-way.
	begin: "BEGIN IMMEDIATE",
	// These are reported before anything of the commit was written to the log. After an I/O error nobody knows.
	unwritten: func(err error) bool {
		var e *sqlite.Error
		if !errors.As(err, &e) {
			return false
		}
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL:
			return true
		}
		return false
	},
}

// openSQLite opens the file, which the caller has locked, and brings its schema up to date.
func openSQLite(ctx context.Context, path, synchronous string) (*database, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	d := &database{dialect: sqliteDialect}
	err := func() (err error) {
		if d.writes, err = sql.Open("sqlite", sqliteName(path, synchronous)); err != nil {
			return err
		}
		d.writes.SetMaxOpenConns(1)
		if err := migrations.SQLite(d.writes); err != nil {
			return err
		}
		if d.reads, err = sql.Open("sqlite", sqliteName(path, synchronous)+"&_query_only=1"); err != nil {
			return err
		}
		d.reads.SetMaxOpenConns(sqliteReaders)
		d.reads.SetMaxIdleConns(sqliteReaders)
		return d.prepare(ctx)
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), d.close())
	}
	return d, nil
}

// sqliteName is the data source name. auto_vacuum and page_size count only while the file is made.
func sqliteName(path, synchronous string) string {
	file := url.URL{Scheme: "file", Path: path}
	return file.String() + "?" + strings.Join([]string{
		"_auto_vacuum=incremental",
		"_busy_timeout=10000",
		"_journal_mode=wal",
		"_synchronous=" + synchronous,
		// 4096 pages of 4 KiB: a longer log between checkpoints writes pages that change often (indexes, meta) less
		// often to the file; and the log is cut back to that after it had to grow.
		"_pragma=wal_autocheckpoint(2048)",
		"_pragma=journal_size_limit(16777216)",
		"_pragma=cache_size(-4096)",
		"_pragma=temp_store(memory)",
	}, "&")
}
