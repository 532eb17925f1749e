package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// litestreamTable is the prefix of the tables that Litestream makes in a file that it copies.
const litestreamTable = "_litestream_"

// litestreamInterval is how often a store that is written to looks whether its file is copied.
const litestreamInterval = time.Second

// litestream looks after a file that Litestream copies.
//
// Invariant: a write-ahead log that was begun anew has no frames of the one before it behind its end. SQLite leaves them, which saves a new
// size of the file with each transaction. When Litestream (0.5.18) starts again, and the log is shorter than what it had copied, it takes a
// frame of the old log at that place for the proof that it has copied all of it. What was written after that frame, and before the log
// was begun anew, then misses in the replica, which cannot be restored. With the log cut it copies the whole file.
type litestream struct {
	looked time.Time
	cuts   bool // SQLite cuts the log
}

// heed is called before anything is written and between transactions, on the connection that writes. found: the file is copied, which was not known.
func (l *litestream) heed(ctx context.Context, conn sqlConn) (found bool, err error) {
	if l.cuts || time.Since(l.looked) < litestreamInterval {
		return false, nil
	}
	l.looked = time.Now()
	var name string
	err = conn.QueryRowContext(ctx, "SELECT name FROM sqlite_schema WHERE substr(name, 1, ?) = ? LIMIT 1", len(litestreamTable), litestreamTable).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err == nil {
		// The limit is what stays of a log that is begun anew, and its first transaction at least.
		_, err = conn.ExecContext(ctx, "PRAGMA journal_size_limit = 0")
	}
	l.cuts = err == nil
	return l.cuts, err
}

// heedLitestream also cuts the log that there is when it is found that the file is copied: it may be one that was begun anew before.
func (d *sqliteDriver) heedLitestream(ctx context.Context) error {
	found, err := d.litestream.heed(ctx, d.writer)
	if found {
		_, err = d.trimmer.cut(ctx, d.writer)
	}
	return err
}
