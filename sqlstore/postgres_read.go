package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// postgresObjects cuts the table objects, by blocks, into parts of at least 8 MiB.
var postgresObjects = partition{
	sizeSQL: "SELECT pg_relation_size('objects') / current_setting('block_size')::bigint", unit: 1024,
	rows:  selectObjectsSQL + " WHERE ctid >= $1::text::tid AND ctid < $2::text::tid",
	bound: func(block int64) any { return fmt.Sprintf("(%d,0)", min(max(block, 0), math.MaxUint32)) },
}

// shareView exports the snapshot of the first transaction to the others. There are fewer transactions if the database
// has no connection left. A pooler may have a single connection, and let the second transaction wait for the end of the
// first.
func (p *postgresDriver) shareView(ctx context.Context, begin func() (*sql.Tx, error), most int) error {
	first, err := begin()
	if err != nil {
		return err
	}
	if p.pooled {
		return nil
	}
	var id string
	if err := first.QueryRowContext(ctx, "SELECT pg_export_snapshot()").Scan(&id); err != nil {
		return err
	}
	for range most - 1 {
		tx, err := begin()
		if err != nil {
			p.logger.Debug("the objects are read through fewer connections", "error", err)
			return nil
		}
		if _, err := tx.ExecContext(ctx, "SET TRANSACTION SNAPSHOT '"+id+"'"); err != nil {
			return err
		}
	}
	return nil
}

// letGo has nothing to do: connections close by themselves.
func (p *postgresDriver) letGo(int) {}

// shrink has nothing to do either: Postgres itself caches the pages.
func (p *postgresDriver) shrink() error { return nil }

// errStandby says that a standby answered, although every connection leads to a primary when it is made: a pooler may
// route statements elsewhere. The standby's counter may be old, and a read that believed it would return an old state.
var errStandby = errors.New("a standby answered for the primary: a pooler stands between that sends reads to standbys. " +
	"Connect to the database directly, or have it not do so (load_balance_mode = off in Pgpool-II)")

// counter reads the counter.
func (p *postgresDriver) counter(ctx context.Context) (revision int64, err error) {
	bounded, cancel := boundedBy(ctx, p.limits.read)
	defer cancel()
	var standby bool
	err = retryDead(postgresReaders, func() (bool, error) {
		return true, p.query(bounded, p.pool, "SELECT "+counterSQL+", current_setting('in_hot_standby') = 'on' FROM meta m").scan(&revision, &standby)
	})
	switch {
	case err != nil:
		return 0, hung(ctx, err)
	case standby:
		return 0, unavailable(errStandby)
	}
	return revision, nil
}

// retryDead calls f until it succeeds, fails for another reason than a dead connection, or cannot be called again.
// After a restart of the database, the connections of a pool are dead.
func retryDead(times int, f func() (again bool, err error)) error {
	for ; ; times-- {
		again, err := f()
		if err == nil || !again || times == 0 || !isConnectionError(err) {
			return err
		}
	}
}

// page reads the log through the pool, within limits.read for all its attempts: the lock of those who read the log is held, and the counter's may be.
func (p *postgresDriver) page(ctx context.Context, after int64, rows, bytes int) (found *page, err error) {
	bounded, cancel := boundedBy(ctx, p.limits.read)
	defer cancel()
	bounded = context.WithValue(bounded, answering{}, ctx.Value(answering{}))
	err = retryDead(postgresReaders, func() (bool, error) {
		found, err = p.readPage(bounded, p.pool, after, rows, bytes)
		return bounded.Err() == nil, err
	})
	if err != nil {
		return nil, hung(ctx, err)
	}
	return found, nil
}

// sender is a connection or a pool.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func (p *postgresDriver) readPage(ctx context.Context, from sender, after int64, rows, bytes int) (found *page, err error) {
	bounded, cancel := boundedBy(ctx, p.limits.read)
	defer cancel()
	if err = p.query(bounded, from, selectPageSQL, after, rows, bytes, p.self).each(func(rows pgx.Rows) error {
		if answered, ok := ctx.Value(answering{}).(func()); ok && rows.Err() == nil { // also called when the connection is dead
			answered()
		}
		found, err = p.scanPage(rows)
		return err
	}); err != nil {
		return nil, hung(ctx, err)
	}
	return found, nil
}

// query is a statement that reads, in one transaction with the settings that a session loses behind a pooler.
type query struct {
	ctx   context.Context
	from  sender
	batch *pgx.Batch
	last  *pgx.QueuedQuery
}

func (p *postgresDriver) query(ctx context.Context, from sender, text string, args ...any) query {
	b := &pgx.Batch{}
	if p.prelude != "" {
		b.Queue(p.prelude)
	}
	return query{ctx, from, b, b.Queue(text, args...)}
}

func (q query) each(read func(pgx.Rows) error) error {
	q.last.Query(read)
	return q.from.SendBatch(q.ctx, q.batch).Close()
}

func (q query) scan(into ...any) error {
	q.last.QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	return q.from.SendBatch(q.ctx, q.batch).Close()
}

func (p *postgresDriver) scanPage(rows pgx.Rows) (*page, error) {
	defer rows.Close()
	found := &page{}
	l := loader{sealer: p.sealer, within: openWithin} // the lock of the counter may be held
	for rows.Next() {
		if err := found.scanRow(&l, rows.Scan); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable(err)
	}
	if err := p.timelines.follow(found.actual); err != nil { // behind a pooler, a connection may come to lead elsewhere
		return nil, unavailable(err)
	}
	return found, nil
}

// hung wraps an error of a statement with a timeout as the contract wants it: it returns the error of the caller's
// context only if that has ended.
func hung(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, resources.ErrUnavailable) {
		return err
	}
	if isLockTimeout(err) {
		return fmt.Errorf("%w: another server has the counter, or a commit waits for its synchronous standby: %w", resources.ErrUnavailable, err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the database did not answer in time", resources.ErrUnavailable)
	}
	return unusable(err)
}
