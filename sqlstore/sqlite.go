package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/resources/files"
)

// sqliteReaders is how many reads of the file run at once. Reads are rare (history beyond the log in memory), short,
// and each connection has a page cache.
const sqliteReaders = 4

// busyTimeout is how long a statement waits for a lock. The server holds none for long; a person who uses the file may.
const busyTimeout = 10 * time.Second

// unwritten reports whether a failed commit certainly left nothing behind: SQLite waited for a lock, or there was no room
// for all of the commit in the log. After another I/O error the outcome is unknown.
func unwritten(err error) bool {
	if errors.Is(err, errNoRoom) {
		return true
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL:
		return true
	}
	return false
}

// refused reports whether a statement failed because of the data that it was to write. A revision that exists already
// is not the fault of the data.
func refused(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT:
		return e.Code() != sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY && e.Code() != sqlite3.SQLITE_CONSTRAINT_UNIQUE &&
			e.Code() != sqlite3.SQLITE_CONSTRAINT_ROWID && !isMoved(err)
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// openSQLite opens the file, which the caller has locked, and brings its schema up to date.
func openSQLite(ctx context.Context, path string, claimed *os.File, synchronous string, logger *slog.Logger) (*database, error) {
	gate := newReadGate()
	w := &sqliteDriver{claimed: claimed, ahead: newAhead(synchronous), gate: gate, trimmer: &walTrimmer{path: path + "-wal", gate: gate, max: walMax, busyTimeout: walBusyTimeout}}
	d := &database{driver: w, gate: gate, counter: selectCounterSQL, state: selectMetaSQL, objects: sqliteObjects, oldestSQL: selectWindowSQL}
	err := func() (err error) {
		if w.writes, err = sql.Open("sqlite", sqliteName(path, synchronous)); err != nil {
			return err
		}
		w.writes.SetMaxOpenConns(1)
		if _, err := w.litestream.heed(ctx, w.writes); err != nil { // the single connection that writes is open from now on
			return err
		}
		if err := checkPlace(ctx, w.writes, false); err != nil { // first, because a store that has moved takes no migrations
			return err
		}
		if err := migrations.SQLite(ctx, w.writes); err != nil {
			return err
		}
		if d.reads, err = sql.Open("sqlite", sqliteName(path, synchronous)+"&_query_only=1"); err != nil {
			return err
		}
		d.reads.SetMaxOpenConns(sqliteReaders)
		d.reads.SetMaxIdleConns(sqliteReaders)
		w.reads = d.reads
		if err := w.prepare(ctx); err != nil {
			return err
		}
		if err := w.recover(ctx, logger); err != nil {
			return err
		}
		w.place, err = newPlace(path)
		return err
	}()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), d.close())
	}
	return d, nil
}

const (
	// pageSize is the page size of a new file, in bytes. SQLite writes whole pages, to the write-ahead log and then to
	// the database. With its default of 4 KiB, updates of objects of 2 KB by 16 writers at a time write 7 times the
	// object; with 2 KiB, 2.7 times. Writing 100 KB takes a sixth more processor time (BenchmarkUpdate), and so does a
	// delete through HTTP (docs/benchmarks.md). With 1 KiB it is 2.8 times the object, and half more processor time.
	// Files that were created with 4 KiB keep that size.
	pageSize = 2048
	// walCheckpoint is the size of the write-ahead log at which SQLite itself moves it into the database. With a longer
	// log, pages that change often (indexes, meta) are written less often to the database.
	walCheckpoint = 8 << 20
	// walMax is the size at which walTrimmer cuts the log.
	walMax = 4 * walCheckpoint
	// walBusyTimeout is how long a cut may wait for readers of other processes, while writers wait for it.
	walBusyTimeout = 50 * time.Millisecond
)

// walTrimmer bounds the write-ahead log. SQLite restarts it only at a moment when no connection reads from it, and
// reads of history may overlap for long without such a moment: the gate creates one.
type walTrimmer struct {
	path        string
	gate        *readGate
	max         int64         // bytes
	busyTimeout time.Duration // of a cut, for readers
	next        int64         // size at which a cut is tried again after a failed one; 0: max
}

// trim cuts the log if it is too long and no goroutine of this process reads; otherwise it is to be called when none
// does. A reader of another process (a person with a long query) may be in the way nevertheless; then the next attempt
// is made when the log has grown by a quarter of its bound, so that not every attempt delays writers.
func (w *walTrimmer) trim(ctx context.Context, conn *sql.Conn) (worked bool, err error) {
	info, err := os.Stat(w.path)
	if err != nil {
		w.gate.open()
		return false, err
	}
	if info.Size() < w.max {
		w.next = 0
		w.gate.open() // SQLite has restarted it
		return false, nil
	}
	if info.Size() < w.next {
		w.gate.open()
		return false, nil
	}
	if !w.gate.shut() {
		return false, nil
	}
	defer w.gate.open()
	cut, err := w.cut(ctx, conn)
	if !cut {
		w.next = info.Size() + w.max/4
	}
	return true, err
}

// cut moves the log into the database and truncates it, unless a connection reads for longer than busyTimeout, for
// which all writers wait.
func (w *walTrimmer) cut(ctx context.Context, conn *sql.Conn) (done bool, err error) {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", w.busyTimeout.Milliseconds())); err != nil {
		return false, err
	}
	var busy, frames, moved int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	_, berr := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()))
	return err == nil && busy == 0, errors.Join(err, berr)
}

// checkpointBySize makes SQLite move the log into the database at walCheckpoint, which it counts in pages of the file's
// size.
func checkpointBySize(ctx context.Context, conn *sql.Conn) error {
	var page int
	if err := conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", walCheckpoint/page))
	return err
}

// makePrivate creates the file if it does not exist: it will hold secrets, and SQLite would make it readable for
// everybody. SQLite gives the files beside it the same mode.
func makePrivate(path string) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// openClaimed creates the file like makePrivate, and keeps every other store off it, whatever path that uses for it.
func openClaimed(path string, logger *slog.Logger) (*os.File, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	if err := claim(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if isElsewhere(f) {
		logger.Warn("the file of the database has other names, by hard links, or is mounted by itself: its last writes are in the write-ahead log, which is beside this name alone; "+
			"give the server, and whatever copies or mounts the file, its directory", "file", path)
	}
	return f, nil
}

// sqliteName is the data source name. page_size and auto_vacuum only have an effect while the file is created, in this
// order. The driver has no parameters for them, and sorts pragmas: hence one parameter for both.
func sqliteName(path, synchronous string) string {
	file := url.URL{Scheme: "file", Path: path}
	return file.String() + "?" + strings.Join([]string{
		fmt.Sprintf("_pragma=page_size(%d)", pageSize) + url.QueryEscape("; PRAGMA auto_vacuum(incremental)"),
		fmt.Sprintf("_busy_timeout=%d", busyTimeout.Milliseconds()),
		"_journal_mode=wal",
		"_synchronous=" + synchronous,
		// See walCheckpoint, and checkpointBySize for files with other page sizes. SQLite truncates a log that was larger
		// to twice walCheckpoint.
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", walCheckpoint/pageSize),
		"_pragma=journal_size_limit(16777216)",
		"_pragma=cache_size(-4096)",
		"_pragma=temp_store(memory)",
	}, "&")
}
