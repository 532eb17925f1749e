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
	if err := p.pool.QueryRow(bounded, "SELECT revision FROM meta").Scan(&revision); err != nil {
		return 0, hung(ctx, err)
	}
	return revision, nil
}

// page reads the log through the pool.
func (p *postgresDriver) page(ctx context.Context, after int64, limit int) (*page, error) {
	return readPage(ctx, p.pool, after, limit)
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
	return fmt.Errorf("%w: %v", resources.ErrUnavailable, err) //nolint:errorlint // a deadline in it is not the caller's
}
