package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
)

// database is the tables, and what the store does with them. What both databases are asked in the same words goes through
// reads; the rest is the driver's.
type database struct {
	driver
	reads *sql.DB
	// gate is what who reads passes; nil: none is needed.
	gate *readGate
	// isolation makes the statements of a read see one state.
	isolation sql.IsolationLevel
	// prelude is a statement that a transaction has to begin with, if any: what a session would remember, behind a pooler.
	prelude string
	limits  limits
	// objects is how that table is read at start.
	objects partition
	sealer  *sealer
	// origin is where history is to be read; nil: there is but one.
	origin *origin
	// counter and state are the statements that read the counter, and what a cache begins with.
	counter, state string
	// deadConnections is how many connections of the pool may turn out to be dead, one after the other.
	deadConnections int
}

// driver is what differs between databases. But for size, aside and inPlace, it belongs to the goroutine of the committer.
type driver interface {
	// begin starts the transaction of a batch. Where several servers share the database, no other can raise the
	// counter from here on, and the page has what others wrote after the given revision; else there is no page.
	begin(after int64) (transaction, *page, error)
	// prune deletes the changes up to a revision and returns how many bytes history has left, by what was deleted and not
	// by what was to be. After an error nothing was deleted, or after resources.ErrUnknownOutcome perhaps all of it.
	prune(floor int64) (left int64, err error)
	// shareView calls begin, once at least and so many times at most, for transactions that all see the same state.
	shareView(ctx context.Context, begin func() (*sql.Tx, error), most int) error
	// rewrite runs statements in a transaction under the lock of the counter. It changes nothing of the store's state but how it is
	// written down: each statement is conditional on what it replaces.
	rewrite(statements []boundStatement) error
	// aside reads, and writes if read says so, tables that no batch writes, beside all that batches do. What is read and what is written are of
	// one transaction where the tables are shared with other servers; else committer runs what writes between batches.
	aside(ctx context.Context, committer func(func() error) error, read func(ctx context.Context, c sqlConn, shared bool) (write bool, err error),
		write func(ctx context.Context, c sqlConn) error) error
	// rewritesTogether is what rows of changes have in common that are to be rewritten together, or not at all, as text.
	rewritesTogether() string
	// scrub makes sure that the files of the database have nothing of what was replaced or deleted, as far as it can.
	scrub() error
	// letGo is called when so many transactions that begin together have ended.
	letGo(views int)
	// shrink gives back the memory in which connections keep pages of the database, for who has come to rest.
	shrink() error
	// keepViews makes the views that people ask be these; see Store.KeepViews. onCommitter runs what writes to a database that has one writer.
	keepViews(ctx context.Context, wanted []views.View, onCommitter func(func() error) error) (left map[string]error, err error)
	// touch commits a change of nothing, to see whether commits work.
	touch() error
	// size returns the bytes of the database.
	size(context.Context) (int64, error)
	// free returns how many bytes of the database nothing is in; 0 where that looks after itself.
	free(context.Context) (bytes int64, err error)
	// vacuum returns free pages of up to so many bytes to the file system, if they are many. more says whether it is worth
	// going on.
	vacuum(bytes int64) (more bool, err error)
	// checkpoint moves the write-ahead log into the database and cuts it to nothing, where nobody who reads is in the way for long.
	checkpoint() error
	// trimLog keeps the write-ahead log bounded; it is called between batches and is cheap when there is nothing to do; worked
	// tells that there was.
	trimLog() (worked bool, err error)
	// inPlace says whether whoever opens the database after this process finds what it has written; anybody may call it.
	inPlace() error
	// noteAges writes meta.ages.
	noteAges(ages string) error
	close() error
}

// transaction is one batch on its way into the database. It is ended by one of its methods.
type transaction interface {
	// commit writes a batch: every change into the log, the last state of every object, the counter. Errors:
	// resources.ErrRefused when nothing was written and would not be the next time either, for what is in the batch;
	// resources.ErrUnavailable when nothing was written; resources.ErrUnknownOutcome.
	commit(*batch) error
	// floor is a revision after which the log has every change, and keeps it until commit: an update of an object that
	// was changed after it is stored without the object before.
	floor() int64
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

// each calls visit for every row that a statement returns. A database that hangs must not hang its readers.
func (d *database) each(ctx context.Context, visit func(scan func(...any) error) error, statement string, args ...any) error {
	bounded, cancel := boundedBy(ctx, d.limits.read)
	defer cancel()
	visited := false
	noted := func(scan func(...any) error) error {
		visited = true
		return visit(scan)
	}
	again := func() bool { return !visited }
	err := d.gate.pass(ctx, bounded, again, func(held context.Context) error {
		return retryDead(d.deadConnections, func() (bool, error) {
			err := d.read(held, noted, statement, args...)
			return again(), err
		})
	})
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("%w: no answer in %v", resources.ErrUnavailable, d.limits.read)
	}
	return err
}

// boundedBy returns a context that ends with ctx, and after a time. It has none of the values of ctx: an idle connection keeps
// the context of its last statement, and what a request knows, its Catalog among it, is not to live as long as that.
func boundedBy(ctx context.Context, limit time.Duration) (bounded context.Context, cancel func()) {
	bounded, end := context.WithTimeout(context.Background(), limit)
	if ctx.Err() != nil {
		end()
	}
	forget := context.AfterFunc(ctx, end)
	return bounded, func() {
		forget()
		end()
	}
}

func (d *database) read(ctx context.Context, visit func(scan func(...any) error) error, statement string, args ...any) error {
	if d.prelude == "" {
		return eachRow(d.reads.QueryContext(ctx, statement, args...))(visit)
	}
	tx, err := d.beginRead(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return eachRow(tx.QueryContext(ctx, statement, args...))(visit)
}

// beginRead starts a transaction that reads.
func (d *database) beginRead(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error) {
	tx, err := d.reads.BeginTx(ctx, options)
	if err != nil {
		return nil, unavailable(err)
	}
	if d.prelude != "" {
		if _, err := tx.ExecContext(ctx, d.prelude); err != nil {
			_ = tx.Rollback() // nothing was written
			return nil, unavailable(err)
		}
	}
	return tx, nil
}

// revision reads the counter.
func (d *database) revision(ctx context.Context) (int64, error) {
	var revision int64
	err := d.each(ctx, func(scan func(...any) error) error {
		if err := scan(&revision); err != nil {
			return unavailable(err)
		}
		return nil
	}, d.counter)
	return revision, err
}

// meta is the row of that table.
type meta struct {
	revision, floor, historyBytes int64
	at                            sql.NullInt64  // of the last change, as far as it is in history
	ages                          sql.NullString // see ages.String
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
	return unusable(err)
}

// unusable says that the database cannot be used, for a reason that is not the caller's.
func unusable(err error) error {
	if isMoved(err) {
		return fmt.Errorf("%w: %w to %s", resources.ErrUnavailable, resources.ErrMoved, movedPlace(err))
	}
	if isFull(err) {
		return fmt.Errorf("%w: %w: %w", resources.ErrUnavailable, resources.ErrFull, err)
	}
	return fmt.Errorf("%w: %w", resources.ErrUnavailable, err)
}

// isFull reports whether the database found no room on its disk. SQLite has an error of its own for the file that it keeps the index of its
// log in.
func isFull(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code == diskFull
	}
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// milliseconds converts a column to a time.
func milliseconds(ms int64) time.Time { return time.UnixMilli(ms) }
