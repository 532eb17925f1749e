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

// database is the tables, and the store's operations on them. Statements that are the same for both databases go
// through reads; the rest is in driver.
type database struct {
	driver
	reads *sql.DB
	// gate is passed by every read; nil: none is needed.
	gate *readGate
	// isolation makes the statements of a read see one state.
	isolation sql.IsolationLevel
	// prelude is a statement that every transaction has to begin with, if any: settings that a session loses behind a
	// pooler.
	prelude string
	// unhurried is a statement that removes the time limits of a transaction, if one is needed.
	unhurried string
	limits    limits
	// objects describes how the table objects is read at the start, in parts.
	objects partition
	sealer  *sealer
	// origin is the primary that history has to be read from; nil: there is only one.
	origin *origin
	// follow refuses a transaction with a primary that was replaced; nil: there is only one.
	follow func(context.Context, sqlConn) error
	// counter and state are the statements that read the counter and the store's state for a new cache.
	counter, state string
	// oldestSQL is selectOldestSQL in the database's form.
	oldestSQL string
	// deadConnections is how many connections of the pool may turn out to be dead in a row.
	deadConnections int
}

// driver is the part that differs between the databases. Except for size, aside and inPlace, it belongs to the
// committer's goroutine.
type driver interface {
	// begin starts the transaction of a batch. If several servers share the database, no other server can raise the
	// counter from here on, and the page has the changes of other servers after the given revision; otherwise there is
	// no page.
	begin(after int64) (transaction, *page, error)
	// prune deletes the changes up to a revision and returns how many bytes history has left, counted by the rows that
	// were really deleted. After an error nothing was deleted; after resources.ErrUnknownOutcome perhaps all of it.
	prune(floor int64) (left int64, err error)
	// shareView calls begin at least once and at most most times, for transactions that all see the same state.
	shareView(ctx context.Context, begin func() (*sql.Tx, error), most int) error
	// rewrite runs statements in a transaction under the lock of the counter. They change only how the store's state is
	// encoded: each statement is conditional on the row that it replaces.
	rewrite(statements []boundStatement) error
	// aside calls read, and then write if read returns true, for tables that no batch writes, concurrently with
	// batches. If other servers share the tables, both run in one transaction; otherwise committer runs write between
	// batches.
	aside(ctx context.Context, committer func(func() error) error, read func(ctx context.Context, c sqlConn, shared bool) (write bool, err error),
		write func(ctx context.Context, c sqlConn) error) error
	// rewritesTogether is an SQL expression, as text: rows of changes with the same value are rewritten together or not
	// at all.
	rewritesTogether() string
	// scrub removes from the files of the database, as far as it can, the bytes of rows that were replaced or deleted.
	scrub() error
	// letGo is called when views transactions that began together have ended.
	letGo(views int)
	// shrink frees the memory in which connections cache pages of the database; it is called when the server is idle.
	shrink() error
	// keepViews makes the database have exactly the wanted views; see Store.KeepViews. onCommitter runs writes to a
	// database that has only one writer.
	keepViews(ctx context.Context, wanted []views.View, onCommitter func(func() error) error) (left map[string]error, err error)
	// touch makes a commit without changes, to see whether commits work.
	touch() error
	// size returns the size of the database in bytes.
	size(context.Context) (int64, error)
	// free returns how many bytes of the database are unused; 0 if the database looks after them itself.
	free(context.Context) (bytes int64, err error)
	// vacuum returns free pages of up to so many bytes to the file system, if there are many. more reports whether
	// another call is worth it.
	vacuum(bytes int64) (more bool, err error)
	// checkpoint moves the write-ahead log into the database and truncates it, unless readers are in the way for long.
	checkpoint() error
	// trimLog keeps the write-ahead log bounded; it is called between batches and is cheap when there is nothing to do.
	// worked reports whether there was.
	trimLog() (worked bool, err error)
	// inPlace returns an error if the next process that opens the database would not find what this one writes. It may
	// be called from any goroutine.
	inPlace() error
	// noteAges writes meta.ages.
	noteAges(ages string) error
	close() error
}

// transaction is one batch on its way into the database. Each of commit and rollback ends it.
type transaction interface {
	// commit writes a batch: every change into the log, the last state of every object, the counter. Errors:
	// resources.ErrRefused if nothing was written and a retry of the same batch would fail as well;
	// resources.ErrUnavailable if nothing was written; with errAgain too, if the same may succeed at once;
	// resources.ErrUnknownOutcome.
	commit(*batch) error
	// floor is a revision after which the log has every change, and keeps it until commit: an update of an object that
	// was last changed after it is stored without the object before.
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

// each calls visit for every row that a statement returns. It has a time limit, so that a hanging database does not
// make readers hang.
func (d *database) each(ctx context.Context, visit func(scan func(...any) error) error, statement string, args ...any) error {
	return d.eachBy(ctx, false, visit, statement, args...)
}

// eachFollowed is each for statements whose answers do not say which primary they come from: it refuses one that was
// replaced.
func (d *database) eachFollowed(ctx context.Context, visit func(scan func(...any) error) error, statement string, args ...any) error {
	return d.eachBy(ctx, true, visit, statement, args...)
}

func (d *database) eachBy(ctx context.Context, followed bool, visit func(scan func(...any) error) error, statement string, args ...any) error {
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
			err := d.read(held, followed, noted, statement, args...)
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

// boundedBy returns a context that ends with ctx, and after limit. It has no values of ctx: an idle connection keeps
// the context of its last statement, and the values of a request, such as its Catalog, must not live as long as that.
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

func (d *database) read(ctx context.Context, followed bool, visit func(scan func(...any) error) error, statement string, args ...any) error {
	followed = followed && d.follow != nil
	if d.prelude == "" && !followed {
		return eachRow(d.reads.QueryContext(ctx, statement, args...))(visit)
	}
	tx, err := d.beginRead(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if followed {
		if err := d.follow(ctx, tx); err != nil {
			return err
		}
	}
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
	err := d.eachFollowed(ctx, func(scan func(...any) error) error {
		if err := scan(&revision); err != nil {
			return unavailable(err)
		}
		return nil
	}, d.counter)
	return revision, err
}

// meta is the row of the table meta.
type meta struct {
	revision, floor, historyBytes int64
	at                            sql.NullInt64  // of the last change, if it is in history
	ages                          sql.NullString // see ages.noted
}

// eachRow calls visit for every row and closes the rows. Errors of the database are resources.ErrUnavailable.
func eachRow(rows *sql.Rows, err error) func(visit func(scan func(...any) error) error) error {
	return func(visit func(scan func(...any) error) error) error {
		if err != nil {
			return unavailable(err)
		}
		defer rows.Close() //nolint:errcheck // rows.Err reports the error
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

// unavailable wraps a database error as the contract wants it. Cancellation by the caller stays unwrapped.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return unusable(err)
}

// unusable says that the database cannot be used, for a reason that is not the caller's fault.
func unusable(err error) error {
	if isMoved(err) {
		return fmt.Errorf("%w: %w to %s", resources.ErrUnavailable, resources.ErrMoved, movedPlace(err))
	}
	if isFull(err) {
		return fmt.Errorf("%w: %w: %w", resources.ErrUnavailable, resources.ErrFull, err)
	}
	return fmt.Errorf("%w: %w", resources.ErrUnavailable, err)
}

// isFull reports whether the database's disk is full. SQLite has a separate error for the file that holds the index of
// its write-ahead log. Postgres has one for ENOSPC only: for a quota or a limit, the error has the code of an internal
// error, and the name of the function that extends a file.
func isFull(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code == diskFull || pgErr.Code == internalError && (pgErr.Routine == "mdextend" || pgErr.Routine == "mdzeroextend")
	}
	var e *sqlite.Error
	return errors.Is(err, errNoRoom) || errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}

// milliseconds converts a column to a time.
func milliseconds(ms int64) time.Time { return time.UnixMilli(ms) }
