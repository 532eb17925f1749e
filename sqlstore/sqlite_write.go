package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strconv"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources"
)

// sqliteDriver writes to the file, through one connection.
type sqliteDriver struct {
	reads      *sql.DB // of the database
	writes     *sql.DB
	writer     *sql.Conn
	gate       *readGate
	trimmer    *walTrimmer
	litestream litestream
	ahead      ahead
	place      place
	claimed    *os.File      // see claim
	from       sql.NullInt64 // the floor; not valid: it has to be read
	inline     int64         // meta.inline

	upsertObject, deleteObject, insertChange, updateMeta *sql.Stmt
}

func (d *sqliteDriver) prepare(ctx context.Context) error {
	var err error
	if d.writer, err = d.writes.Conn(ctx); err != nil {
		return err
	}
	if err = checkpointBySize(ctx, d.writer); err != nil {
		return err
	}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&d.upsertObject, putCurrentSQL}, {&d.deleteObject, deleteCurrentSQL},
		{&d.insertChange, insertChangeSQL}, {&d.updateMeta, updateMetaSQL},
	} {
		if *s.stmt, err = d.writer.PrepareContext(ctx, s.text); err != nil {
			return err
		}
	}
	return nil
}

func (d *sqliteDriver) close() error {
	var errs []error
	if d.writer != nil {
		d.seal()
		if d.place.lacks() {
			errs = append(errs, d.saveLog())
		}
		// Before the connection, which open statements would keep open: then SQLite does not move the log into the
		// file, and a copy of the file alone is empty.
		for _, s := range []*sql.Stmt{d.upsertObject, d.deleteObject, d.insertChange, d.updateMeta} {
			if s != nil {
				errs = append(errs, s.Close())
			}
		}
		errs = append(errs, d.writer.Close())
	}
	if d.writes != nil {
		errs = append(errs, d.writes.Close())
	}
	if d.claimed != nil {
		errs = append(errs, unclaim(d.claimed))
	}
	return errors.Join(errs...)
}

// saveLog moves the log into the database, because no other process would find the log. SQLite does that only when the
// last process closes the database, and another one that reads, such as Litestream, may keep it open.
func (d *sqliteDriver) saveLog() error {
	done, err := d.trimmer.cut(context.Background(), d.writer)
	if err == nil && !done {
		err = errors.New("somebody reads the database: what is in the write-ahead log, which is not in its place, was not written into it")
	}
	return err
}

// begin leaves everything to commit: no other process writes to the file.
func (d *sqliteDriver) begin(int64) (transaction, *page, error) {
	if d.from.Valid {
		return d, nil, nil
	}
	if err := d.writer.QueryRowContext(context.Background(), selectFloorSQL).Scan(&d.from, &d.inline); err != nil {
		return nil, nil, unavailable(err)
	}
	return d, nil, nil
}

// floor is where history begins. The log has the last change of every object, but for those that are in the table
// current themselves.
func (d *sqliteDriver) floor() int64 { return min(d.from.Int64, d.inline) }

// raiseFloor calls f, which may raise the floor. After an error the floor has to be read again.
func (d *sqliteDriver) raiseFloor(f func() (floor int64, err error)) error {
	before := d.from
	d.from = sql.NullInt64{}
	floor, err := f()
	if err == nil && before.Valid {
		d.from = sql.NullInt64{Int64: max(floor, before.Int64), Valid: true}
	}
	return err
}

func (d *sqliteDriver) rollback() {}

// transaction runs f in a transaction of the writer. No context can cancel it: a batch serves many requests. Errors:
// resources.ErrRefused if a statement failed because of its data, resources.ErrUnavailable if nothing was written for
// another reason, resources.ErrUnknownOutcome if only COMMIT failed.
func (d *sqliteDriver) transaction(f func(context.Context) error) error {
	ctx := context.Background()
	// IMMEDIATE takes the write lock at once: a transaction that upgrades later could fail half-way.
	if _, err := d.writer.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return unavailable(err)
	}
	if err := f(ctx); err != nil {
		err = d.undo(ctx, d.explain(err))
		if refused(err) {
			return fmt.Errorf("%w: %w", resources.ErrRefused, err)
		}
		return unavailable(err)
	}
	if _, err := d.writer.ExecContext(ctx, "COMMIT"); err != nil {
		if err = d.explain(err); unwritten(err) {
			return unavailable(d.undo(ctx, err))
		}
		return fmt.Errorf("%w: %w", resources.ErrUnknownOutcome, d.undo(ctx, err))
	}
	return nil
}

// undo ends a transaction that has failed. Some failures, a full disk for example, have ended it already: ROLLBACK then
// returns SQLITE_ERROR.
func (d *sqliteDriver) undo(ctx context.Context, cause error) error {
	var ended *sqlite.Error
	if _, err := d.writer.ExecContext(ctx, "ROLLBACK"); err != nil && !(errors.As(err, &ended) && ended.Code() == sqlite3.SQLITE_ERROR) {
		cause = errors.Join(cause, err)
	}
	return cause
}

// commit writes a batch: every change into the log, the last state of every object, the counter. If the present mark
// does not cover the batch's revisions, the commit sets a new mark and is flushed.
func (d *sqliteDriver) commit(b *batch) error {
	floor := d.from.Int64
	return d.raiseFloor(func() (int64, error) {
		var err error
		if d.ahead.covers(b.revision) {
			err = d.write(b, floor, 0)
		} else {
			mark := d.ahead.next(b.revision)
			if err = d.flushed(func() error { return d.write(b, floor, mark) }); err == nil {
				d.ahead.mark = mark
			}
		}
		if b.cut == nil {
			return 0, err
		}
		return b.cut.floor, err
	})
}

// write is commit with the present floor and a mark to set; 0: none.
func (d *sqliteDriver) write(b *batch, floor, mark int64) error {
	lastOf := make(map[resources.Key]int64, len(b.changes))
	for i := range b.changes {
		lastOf[b.changes[i].event.Object.Key] = b.changes[i].event.Revision
	}
	return d.transaction(func(ctx context.Context) error {
		for i := range b.changes {
			c := &b.changes[i]
			row := newChangeRow(c, b.at)
			if _, err := d.insertChange.ExecContext(ctx, row.args()...); err != nil {
				return err
			}
			if lastOf[c.event.Object.Key] != c.event.Revision {
				continue // a later change of the batch has the final state
			}
			if err := d.putObject(ctx, c, row); err != nil {
				return err
			}
		}
		if mark > 0 {
			if err := d.setMark(ctx, mark); err != nil {
				return err
			}
		}
		before := b.revision - int64(len(b.changes))
		if err := affectOne(d.updateMeta.ExecContext(ctx, b.revision, b.size, before, floor)); err != nil {
			return err
		}
		return d.makeCut(ctx, b.cut, before) // last, so that it knows which objects the batch changes
	})
}

func (d *sqliteDriver) putObject(ctx context.Context, c *change, row changeRow) error {
	if c.event.Op == resources.Delete {
		_, err := d.deleteObject.ExecContext(ctx, row.resource, row.namespace, row.name)
		return err
	}
	expires := sql.NullInt64{Int64: c.expires, Valid: c.expires > 0}
	_, err := d.upsertObject.ExecContext(ctx, row.resource, row.namespace, row.name, row.revision, expires)
	return err
}

func affectOne(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("the counter was changed by somebody else: %d rows", n), err)
	}
	return nil
}

// prune deletes the changes up to a revision and returns how many bytes history has left.
func (d *sqliteDriver) prune(floor int64) (left int64, err error) {
	err = d.raiseFloor(func() (int64, error) {
		return floor, d.transaction(func(ctx context.Context) error {
			left, err = d.deleteChanges(ctx, floor)
			return err
		})
	})
	return left, err
}

// makeCut prunes for a batch, up to a revision, within the batch's transaction.
func (d *sqliteDriver) makeCut(ctx context.Context, c *cut, upTo int64) error {
	if c == nil {
		return nil
	}
	rows, err := d.writer.QueryContext(ctx, selectWindowSQL, c.rows, upTo)
	var floor, found int64
	err = eachRow(rows, err)(func(scan func(...any) error) error {
		var at, frees int64
		if err := scan(&floor, &at, &frees); err != nil {
			return err
		}
		if found += frees; found >= c.bytes {
			return errStop
		}
		return nil
	})
	if err != nil || floor == 0 {
		return err
	}
	c.left, err = d.deleteChanges(ctx, floor)
	c.floor = floor
	return err
}

// deleteChanges is prune within a transaction.
func (d *sqliteDriver) deleteChanges(ctx context.Context, floor int64) (left int64, err error) {
	var freed int64
	if err := d.writer.QueryRowContext(ctx, sizeOfWindowSQL, floor).Scan(&freed); err != nil {
		return 0, unavailable(err)
	}
	for _, statement := range []string{forgetPrevSQL, deletePastSQL} {
		if _, err := d.writer.ExecContext(ctx, statement, floor); err != nil {
			return 0, unavailable(err)
		}
	}
	if err := d.writer.QueryRowContext(ctx, updateFloorSQL, floor, freed).Scan(&left); err != nil {
		return 0, unavailable(err)
	}
	return left, nil
}

// sqliteObjects cuts the table current into parts by rowid.
var sqliteObjects = partition{
	sizeSQL: "SELECT coalesce(max(rowid), 0) FROM current", unit: 16384,
	rows:  selectCurrentSQL + " WHERE o.rowid >= $1 AND o.rowid < $2",
	bound: func(at int64) any { return at },
}

// shareView blocks writers until each transaction has read for the first time, because that read fixes the state that
// the transaction sees. Their connections are opened before, since opening one takes the lock of writers.
func (d *sqliteDriver) shareView(ctx context.Context, begin func() (*sql.Tx, error), most int) (err error) {
	var views []*sql.Tx
	for range most {
		tx, err := begin()
		if err != nil {
			return err
		}
		views = append(views, tx)
	}
	if _, err := d.writer.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		_, rerr := d.writer.ExecContext(context.Background(), "ROLLBACK")
		err = errors.Join(err, rerr)
	}()
	for _, tx := range views {
		var revision int64
		if err := tx.QueryRowContext(ctx, "SELECT revision FROM meta").Scan(&revision); err != nil {
			return err
		}
	}
	return nil
}

// letGo closes the connections that several readers have used, since each has a page cache.
func (d *sqliteDriver) letGo(views int) {
	if views > 1 {
		d.reads.SetMaxIdleConns(0)
		d.reads.SetMaxIdleConns(sqliteReaders)
	}
}

// shrink closes idle connections of readers, and empties the writer's page cache. Pages are then read again from the
// system's cache of the file.
func (d *sqliteDriver) shrink() error {
	d.reads.SetMaxIdleConns(0)
	d.reads.SetMaxIdleConns(sqliteReaders)
	_, err := d.writer.ExecContext(context.Background(), "PRAGMA shrink_memory")
	return err
}

// touch makes a commit without changes, to see whether commits work. SQLite writes nothing for an update to the same value; the page of two updates is
// written, although the second takes the first back.
func (d *sqliteDriver) touch() error {
	return d.transaction(func(ctx context.Context) error {
		_, err := d.writer.ExecContext(ctx, "UPDATE meta SET floor = floor + 1; UPDATE meta SET floor = floor - 1")
		return err
	})
}

func (d *sqliteDriver) noteAges(ages string) error {
	return d.transaction(func(ctx context.Context) error {
		_, err := d.writer.ExecContext(ctx, noteAgesSQL, ages)
		return err
	})
}

// size returns the size of the database in bytes.
func (d *sqliteDriver) size(ctx context.Context) (bytes int64, err error) {
	err = d.reads.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes)
	return bytes, err
}

func (d *sqliteDriver) free(ctx context.Context) (bytes int64, err error) {
	err = d.reads.QueryRowContext(ctx, "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").Scan(&bytes)
	return bytes, err
}

// vacuum returns free pages of up to so many bytes to the file system, if they are more than an eighth of the file and
// more than one step. more reports whether another call is worth it.
func (d *sqliteDriver) vacuum(bytes int64) (more bool, err error) {
	ctx := context.Background()
	var free, all, page int64
	const count = "SELECT freelist_count, page_count, page_size FROM pragma_freelist_count, pragma_page_count, pragma_page_size"
	err = d.writer.QueryRowContext(ctx, count).Scan(&free, &all, &page)
	if err != nil {
		return false, unavailable(err)
	}
	pages := bytes / page
	if free <= pages || free <= all/8 {
		return false, nil
	}
	rows, err := d.writer.QueryContext(ctx, "PRAGMA incremental_vacuum("+strconv.FormatInt(pages, 10)+")")
	// The pragma frees a page per row it is stepped through.
	return true, eachRow(rows, err)(func(func(...any) error) error { return nil })
}

// checkpoint moves the write-ahead log into the file and truncates it, unless a connection reads from it for long.
func (d *sqliteDriver) checkpoint() error {
	_, err := d.trimmer.cut(context.Background(), d.writer)
	return err
}

func (d *sqliteDriver) trimLog() (worked bool, err error) {
	ctx := context.Background()
	herr := d.heedLitestream(ctx)
	worked, err = d.trimmer.trim(ctx, d.writer)
	return worked, errors.Join(herr, err)
}

func (d *sqliteDriver) inPlace() error { return d.place.holds() }
