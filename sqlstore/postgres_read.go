package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// counter reads the counter.
func (p *postgresDriver) counter(ctx context.Context) (revision int64, err error) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = retryDead(postgresReaders, func() (bool, error) {
		return true, p.pool.QueryRow(bounded, "SELECT revision FROM meta").Scan(&revision)
	})
	if err != nil {
		return 0, hung(ctx, err)
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
func (p *postgresDriver) page(ctx context.Context, after int64, limit int) (found *page, err error) {
	err = retryDead(postgresReaders, func() (bool, error) {
		found, err = readPage(ctx, p.pool, after, limit)
		return ctx.Err() == nil, err
	})
	return found, err
}

// querier is a connection or a pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readPage(ctx context.Context, q querier, after int64, limit int) (*page, error) {
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := q.Query(bounded, selectPageSQL, after, limitOrNull(limit))
	if err != nil {
		return nil, hung(ctx, err)
	}
	page, err := scanPage(rows)
	if err != nil {
		return nil, hung(ctx, err)
	}
	return page, nil
}

func scanPage(rows pgx.Rows) (*page, error) {
	defer rows.Close()
	p := &page{}
	l := loader{}
	for rows.Next() {
		if err := p.scanRow(&l, rows.Scan); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable(err)
	}
	return p, nil
}

func limitOrNull(limit int) *int64 {
	if limit == everything {
		return nil
	}
	n := int64(limit)
	return &n
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
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the database did not answer in time", resources.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", resources.ErrUnavailable, err)
}
