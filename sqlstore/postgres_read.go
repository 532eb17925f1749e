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

// postgresObjects cuts the table objects into parts of 8 MiB at least, by blocks.
var postgresObjects = partition{
	sizeSQL: "SELECT pg_relation_size('objects') / current_setting('block_size')::bigint", unit: 1024,
	where: " WHERE ctid >= $1::text::tid AND ctid < $2::text::tid",
	bound: func(block int64) any { return fmt.Sprintf("(%d,0)", min(max(block, 0), math.MaxUint32)) },
}

// shareView exports what the first transaction sees to the others. Where the database has no connection left for another,
// there are fewer. A pooler may have one and no more, and make the second transaction wait for the end of the first.
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
			p.logger.Debug("the objects are read through fewer connections", "err", err)
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

// shrink has nothing to do either: Postgres keeps the pages.
func (p *postgresDriver) shrink() error { return nil }

// errStandby says that whoever was asked is not who takes writes, as every connection is when it is made: a pooler sends statements where it likes. Its
// counter is that of some time ago, and to believe it would be to answer with what is no more.
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

// retryDead calls f until it does not fail for a dead connection, which is how those of a pool are after a restart of
// the database, or cannot be called again.
func retryDead(times int, f func() (again bool, err error)) error {
	for ; ; times-- {
		again, err := f()
		if err == nil || !again || times == 0 || !isConnectionError(err) {
			return err
		}
	}
}

// page reads the log through the pool.
func (p *postgresDriver) page(ctx context.Context, after int64, rows, bytes int) (found *page, err error) {
	err = retryDead(postgresReaders, func() (bool, error) {
		found, err = p.readPage(ctx, p.pool, after, rows, bytes)
		return ctx.Err() == nil, err
	})
	return found, err
}

// sender is a connection or a pool.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func (p *postgresDriver) readPage(ctx context.Context, from sender, after int64, rows, bytes int) (found *page, err error) {
	bounded, cancel := boundedBy(ctx, p.limits.read)
	defer cancel()
	if err = p.query(bounded, from, selectPageSQL, after, rows, bytes, p.self).each(func(rows pgx.Rows) error {
		found, err = p.scanPage(rows)
		return err
	}); err != nil {
		return nil, hung(ctx, err)
	}
	return found, nil
}

// query is a statement that reads, in one transaction with what a session behind a pooler does not remember.
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
	if err := p.timelines.follow(found.actual); err != nil { // behind a pooler, a connection does not stay where it was made
		return nil, unavailable(err)
	}
	return found, nil
}

// hung gives an error of a statement with a timeout its place in the contract: the caller's context is not to blame when
// it is not over.
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
