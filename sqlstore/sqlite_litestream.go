package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// litestreamTable is the prefix of the tables that Litestream makes in a file that it copies.
const litestreamTable = "_litestream_"

// litestreamInterval is how often a store that is written to checks whether Litestream copies its file.
const litestreamInterval = time.Second

// litestream adapts to a file that Litestream copies.
//
// Invariant: a write-ahead log that was restarted has no frames of the previous one after its end. SQLite leaves them
// by default, which saves a new file size with each transaction. When Litestream (0.5.18) is restarted and the log is
// shorter than the part that it had copied, it takes a frame of the old log at that place as proof that it has copied
// everything. The frames after that one, from before the log was restarted, are then missing in the replica, which
// cannot be restored. If the log was truncated, Litestream copies the whole file.
type litestream struct {
	looked time.Time
	cuts   bool // SQLite truncates a restarted log
}

// heed is called before the first write and between transactions, on the connection that writes. found reports that
// Litestream copies the file, which was not known before.
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
		// The limit is the size that a restarted log keeps; it keeps its first transaction at least.
		_, err = conn.ExecContext(ctx, "PRAGMA journal_size_limit = 0")
	}
	l.cuts = err == nil
	return l.cuts, err
}

// heedLitestream also truncates the present log when it finds that Litestream copies the file: it may have been
// restarted before.
func (d *sqliteDriver) heedLitestream(ctx context.Context) error {
	found, err := d.litestream.heed(ctx, d.writer)
	if found {
		_, err = d.trimmer.cut(ctx, d.writer)
	}
	return err
}
