package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources"
)

func (d *sqliteDriver) rewrite(statements []boundStatement) error {
	return d.transaction(func(ctx context.Context) error {
		for _, s := range statements {
			if _, err := d.writer.ExecContext(ctx, s.text, s.args...); err != nil {
				return err
			}
		}
		return nil
	})
}

// rewritesTogether returns an expression that is unique for each row: no other server follows the log of a file.
func (d *sqliteDriver) rewritesTogether() string { return "CAST(revision AS TEXT)" }

// scrub rebuilds the file from the tables, since free pages, and free space on other pages, keep old bytes; and it
// truncates the write-ahead log.
func (d *sqliteDriver) scrub() error {
	if err := d.rebuild(); err != nil {
		return unavailable(err)
	}
	rows, err := d.writer.QueryContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	return eachRow(rows, err)(func(scan func(...any) error) error {
		var busy, log, moved int
		if err := scan(&busy, &log, &moved); err != nil {
			return unavailable(err)
		}
		if busy != 0 {
			return fmt.Errorf("%w: somebody reads the database, so that what was in clear is still in its file; try again", resources.ErrUnavailable)
		}
		return nil
	})
}

// rebuild rebuilds the file by way of a temporary one, since a copy of the database in memory may be more than there is. Where no temporary file can
// be created, it is in memory all the same.
func (d *sqliteDriver) rebuild() error {
	ctx := context.Background()
	_, err := d.writer.ExecContext(ctx, "PRAGMA temp_store = file")
	if err == nil {
		_, err = d.writer.ExecContext(ctx, "VACUUM")
	}
	if _, failed := d.writer.ExecContext(ctx, "PRAGMA temp_store = memory"); failed != nil { // as sqliteName says, for all other statements
		return failed
	}
	var e *sqlite.Error
	if errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CANTOPEN || e.Code() == sqlite3.SQLITE_IOERR_GETTEMPPATH) {
		_, err = d.writer.ExecContext(ctx, "VACUUM")
	}
	return err
}
