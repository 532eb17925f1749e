package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// database is the tables, and what the store does with them. What both databases are asked in the same words goes through
// reads; the rest is the driver's.
type database struct {
	driver
	reads *sql.DB
	// isolation makes the statements of a read see one state.
	isolation sql.IsolationLevel
	// deadConnections is how many connections of the pool may turn out to be dead, one after the other.
	deadConnections int
}

// driver is what differs between databases. But for size, it belongs to the goroutine of the committer.
type driver interface {
	// begin starts the transaction of a batch. Where several servers share the database, nobody else can raise the
	// counter from here on, and the page has what others wrote after the given revision; else there is no page.
	begin(after int64) (transaction, *page, error)
	// prune deletes the changes up to a revision, which hold so many bytes, and returns how many bytes it deleted.
	prune(floor, bytes int64) (freed int64, err error)
	// touch commits a change of nothing, to see whether commits work.
	touch() error
	// size returns the bytes of the database.
	size(context.Context) (int64, error)
	// vacuum returns up to so many free pages to the file system, if they are many. more says whether it is worth
	// going on.
	vacuum(pages int) (more bool, err error)
	// checkpoint moves the write-ahead log into the database and cuts it to nothing.
	checkpoint() error
	// trimLog keeps the write-ahead log bounded; it is called between batches and is cheap when there is nothing to do.
	trimLog() error
	close() error
}

// transaction is one batch on its way into the database. It is ended by one of its methods.
type transaction interface {
	// commit writes a batch: every change into the log, the last state of every object, the counter. Errors:
	// resources.ErrUnavailable when nothing was written, resources.ErrUnknownOutcome.
	commit(*batch) error
	rollback()
}

func (d *database) close() error {
	var errs []error
	if d.reads != nil {
		errs = append(errs, d.reads.Close())
	}
	if d.driver != nil {
		errs = append(errs, d.driver.close())
	}
	return errors.Join(errs...)
}

// readTimeout is how long the database may take for a page of rows. One that hangs must not hang its readers.
const readTimeout = 10 * time.Second

// each calls visit for every row that a statement returns.
func (d *database) each(ctx context.Context, visit func(scan func(...any) error) error, statement string, args ...any) error {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	visited := false
	noted := func(scan func(...any) error) error {
		visited = true
		return visit(scan)
	}
	err := retryDead(d.deadConnections, func() (bool, error) {
		err := eachRow(d.reads.QueryContext(bounded, statement, args...))(noted)
		return !visited, err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: no answer in %v", resources.ErrUnavailable, readTimeout)
	}
	return err
}

// revision reads the counter.
func (d *database) revision(ctx context.Context) (int64, error) {
	var revision int64
	err := d.each(ctx, func(scan func(...any) error) error {
		if err := scan(&revision); err != nil {
			return unavailable(err)
		}
		return nil
	}, "SELECT revision FROM meta")
	return revision, err
}

// meta is the row of that table.
type meta struct {
	revision, floor, historyBytes int64
	at                            sql.NullInt64 // of the last change, as far as it is in history
}

// load yields every object, in the order of paths within each type, and returns the state of the store they belong to.
func (d *database) load(ctx context.Context, yield func(resources.Key, *resources.Object)) (m meta, err error) {
	tx, err := d.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: d.isolation})
	if err != nil {
		return m, unavailable(err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if err := tx.QueryRowContext(ctx, selectMetaSQL).Scan(&m.revision, &m.floor, &m.historyBytes, &m.at); err != nil {
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
