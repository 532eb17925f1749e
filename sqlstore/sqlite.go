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

// busyTimeout is how long a statement waits for a lock. Nobody holds one for long; a person at the file may.
const busyTimeout = 10 * time.Second

// unwritten reports whether a failed commit certainly left nothing behind. These are reported before anything of the
// commit was written to the log; after an I/O error nobody knows.
func unwritten(err error) bool {
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

// refused reports whether a statement failed for what it was to write. A revision that is there already is not the fault
// of what is written.
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
	d := &database{driver: w, gate: gate, counter: selectCounterSQL, state: selectMetaSQL, objects: sqliteObjects}
	err := func() (err error) {
		if w.writes, err = sql.Open("sqlite", sqliteName(path, synchronous)); err != nil {
			return err
		}
		w.writes.SetMaxOpenConns(1)
		if _, err := w.litestream.heed(ctx, w.writes); err != nil { // the one connection that writes is open from now on
			return err
		}
		if err := checkPlace(ctx, w.writes, false); err != nil { // first: what has moved takes no steps either
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
	// pageSize is how many bytes a page of a new file has. SQLite writes whole pages, to the write-ahead log and then to the database: with its
	// usual 4 KiB, updates of objects of 2 KB by 16 writers at a time write 7 times the object, with these 2.7 times; to write 100 KB takes
	// a sixth more processor time (BenchmarkUpdate), and a delete through HTTP, too (docs/benchmarks.md). With 1 KiB, which takes a half more, it is 2.8 times. Files that were made with 4 KiB keep them.
	pageSize = 2048
	// walCheckpoint is the size of the write-ahead log at which SQLite moves it into the database by itself. A longer log writes pages that change
	// often (indexes, meta) less often to the database.
	walCheckpoint = 8 << 20
	// walMax is the size at which more is done about it.
	walMax = 4 * walCheckpoint
	// walBusyTimeout is how long that may wait for readers of other processes to finish, and so keep writers waiting, at once.
	walBusyTimeout = 50 * time.Millisecond
)

// walTrimmer bounds the write-ahead log. SQLite begins it anew only in a moment when nobody reads from it, and reads
// of history may overlap for long without one: the gate makes one.
type walTrimmer struct {
	path        string
	gate        *readGate
	max         int64         // bytes
	busyTimeout time.Duration // with readers
	next        int64         // size at which it is tried again after an attempt that failed; 0: max
}

// trim cuts the log if it is too long, and nobody of this process reads; else it is to be called when nobody does. A reader that is not ours (a person
// with a long query) may be in the way all the same; then
// the next attempt is made when the log has grown by a quarter of its bound, so that writers are not held up by each.
func (w *walTrimmer) trim(ctx context.Context, conn *sql.Conn) (worked bool, err error) {
	info, err := os.Stat(w.path)
	if err != nil {
		w.gate.open()
		return false, err
	}
	if info.Size() < w.max {
		w.next = 0
		w.gate.open() // SQLite has begun it anew by itself
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

// cut moves the log into the database and cuts it to nothing, unless somebody reads for longer than busyTimeout, for which all
// writers wait.
func (w *walTrimmer) cut(ctx context.Context, conn *sql.Conn) (done bool, err error) {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", w.busyTimeout.Milliseconds())); err != nil {
		return false, err
	}
	var busy, frames, moved int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	_, berr := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", busyTimeout.Milliseconds()))
	return err == nil && busy == 0, errors.Join(err, berr)
}

// checkpointBySize has SQLite move the log into the database at walCheckpoint, which it counts in pages, whatever size those of the file have.
func checkpointBySize(ctx context.Context, conn *sql.Conn) error {
	var page int
	if err := conn.QueryRowContext(ctx, "PRAGMA page_size").Scan(&page); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", walCheckpoint/page))
	return err
}

// makePrivate makes the file if it is not there: it will hold secrets, and SQLite would let everybody read it. The files
// beside it get the same mode from SQLite.
func makePrivate(path string) error {
	f, err := files.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// openClaimed makes the file as makePrivate, and keeps all others off it, by whatever name they know it.
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

// sqliteName is the data source name. page_size and auto_vacuum count only while the file is made, in this order, which the driver knows
// no parameters for: it sorts what it is given.
func sqliteName(path, synchronous string) string {
	file := url.URL{Scheme: "file", Path: path}
	return file.String() + "?" + strings.Join([]string{
		fmt.Sprintf("_pragma=page_size(%d)", pageSize) + url.QueryEscape("; PRAGMA auto_vacuum(incremental)"),
		fmt.Sprintf("_busy_timeout=%d", busyTimeout.Milliseconds()),
		"_journal_mode=wal",
		"_synchronous=" + synchronous,
		// See walCheckpoint, and checkpointBySize for files with other pages. The log is cut back to twice that after it had to grow.
		fmt.Sprintf("_pragma=wal_autocheckpoint(%d)", walCheckpoint/pageSize),
		"_pragma=journal_size_limit(16777216)",
		"_pragma=cache_size(-4096)",
		"_pragma=temp_store(memory)",
	}, "&")
}
