package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// database is the tables, and what the store does with them. Reads go through a pool; writes go through one
// connection, which belongs to the goroutine of the committer.
type database struct {
	dialect dialect
	reads   *sql.DB
	writes  *sql.DB
	writer  *sql.Conn

	upsertObject, deleteObject, insertChange, updateMeta *sql.Stmt
}

// dialect is what differs between databases beside the types of columns.
type dialect struct {
	// begin starts a transaction that will write.
	begin string
	// unwritten reports whether a failed commit certainly left nothing behind.
	unwritten func(error) bool
	// trimLog keeps the database's own log bounded; it is called between transactions and is cheap when there is
	// nothing to do.
	trimLog func(context.Context, *sql.Conn) error
}

func (d *database) prepare(ctx context.Context) error {
	var err error
	if d.writer, err = d.writes.Conn(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&d.upsertObject, upsertObjectSQL}, {&d.deleteObject, deleteObjectSQL},
		{&d.insertChange, insertChangeSQL}, {&d.updateMeta, updateMetaSQL},
	} {
		if *s.stmt, err = d.writer.PrepareContext(ctx, s.text); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) close() error {
	var errs []error
	if d.writer != nil {
		errs = append(errs, d.writer.Close())
	}
	for _, db := range []*sql.DB{d.reads, d.writes} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// transaction runs f in a transaction of the writer. No context can break it: a batch serves many requests. Errors:
// resources.ErrUnavailable when nothing was written, resources.ErrUnknownOutcome when only COMMIT failed.
func (d *database) transaction(f func(context.Context) error) error {
	ctx := context.Background()
	if _, err := d.writer.ExecContext(ctx, d.dialect.begin); err != nil {
		return unavailable(err)
	}
	if err := f(ctx); err != nil {
		return d.rollback(ctx, err)
	}
	if _, err := d.writer.ExecContext(ctx, "COMMIT"); err != nil {
		if d.dialect.unwritten(err) {
			return d.rollback(ctx, err)
		}
		// Best effort: some failures end the transaction by themselves, and ROLLBACK then has nothing to do.
		_, rerr := d.writer.ExecContext(ctx, "ROLLBACK")
		return errors.Join(fmt.Errorf("%w: %w", resources.ErrUnknownOutcome, err), rerr)
	}
	return nil
}

func (d *database) rollback(ctx context.Context, cause error) error {
	if _, err := d.writer.ExecContext(ctx, "ROLLBACK"); err != nil {
		cause = errors.Join(cause, err)
	}
	return unavailable(cause)
}

// commit writes a batch: every change into the log, the last state of every object, the counter.
func (d *database) commit(b *batch) error {
	lastOf := make(map[resources.Key]int64, len(b.changes))
	for i := range b.changes {
		lastOf[b.changes[i].event.Object.Key] = b.changes[i].event.Revision
	}
	return d.transaction(func(ctx context.Context) error {
		for i := range b.changes {
			c := &b.changes[i]
			row, err := newChangeRow(c.event, b.at, c.size())
			if err != nil {
				return err
			}
			if _, err := d.insertChange.ExecContext(ctx, row.args()...); err != nil {
				return err
			}
			if lastOf[c.event.Object.Key] != c.event.Revision {
				continue // a later change of the batch has the state that stays
			}
			if err := d.putObject(ctx, c, row); err != nil {
				return err
			}
		}
		return affectOne(d.updateMeta.ExecContext(ctx, b.revision, b.size, b.revision-int64(len(b.changes))))
	})
}

func (d *database) putObject(ctx context.Context, c *change, row changeRow) error {
	if c.event.Op == resources.Delete {
		_, err := d.deleteObject.ExecContext(ctx, row.resource, row.namespace, row.name)
		return err
	}
	expires := sql.NullInt64{Int64: c.expires, Valid: c.expires > 0}
	_, err := d.upsertObject.ExecContext(ctx, row.resource, row.namespace, row.name, row.revision, expires, row.fields, row.data)
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

// revision reads the counter.
func (d *database) revision(ctx context.Context) (int64, error) {
	var revision int64
	if err := d.reads.QueryRowContext(ctx, "SELECT revision FROM meta").Scan(&revision); err != nil {
		return 0, unavailable(err)
	}
	return revision, nil
}

// meta is the row of that table.
type meta struct{ revision, floor, historyBytes int64 }

// load yields every object, in the order of paths within each type, and returns the state of the store they belong to.
func (d *database) load(ctx context.Context, yield func(resources.Key, *resources.Object)) (m meta, err error) {
	tx, err := d.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return m, unavailable(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if err := tx.QueryRowContext(ctx, selectMetaSQL).Scan(&m.revision, &m.floor, &m.historyBytes); err != nil {
		return m, unavailable(err)
	}
	l := loader{}
	err = eachRow(tx.QueryContext(ctx, selectObjectsSQL))(func(scan func(...any) error) error {
		o, err := l.object(scan)
		if err == nil {
			yield(o.Key, o)
		}
		return err
	})
	return m, err
}

// eachRow calls visit for every row and closes the rows. Errors of the database are resources.ErrUnavailable.
func eachRow(rows *sql.Rows, err error) func(visit func(scan func(...any) error) error) error {
	return func(visit func(scan func(...any) error) error) error {
		if err != nil {
			return unavailable(err)
		}
		defer rows.Close() //nolint:errcheck // rows.Err has what matters
		for rows.Next() {
			if err := visit(rows.Scan); err != nil {
				if errors.Is(err, errStop) {
					return nil
				}
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return unavailable(err)
		}
		return nil
	}
}

// errStop ends eachRow before the last row.
var errStop = errors.New("stop")

// unavailable gives a database error its place in the contract. Cancellation by the caller stays what it is.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", resources.ErrUnavailable, err)
}

// milliseconds converts a column to a time.
func milliseconds(ms int64) time.Time { return time.UnixMilli(ms) }
