package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/resources"
)

func (d *sqliteDriver) aside(ctx context.Context, committer func(func() error) error, read func(context.Context, sqlConn, bool) (bool, error),
	write func(context.Context, sqlConn) error) error {
	var wanted bool
	never := func() bool { return false } // the recorder repeats its step
	if err := d.gate.pass(ctx, ctx, never, func(held context.Context) (err error) {
		wanted, err = read(held, d.reads, false)
		return err
	}); err != nil || !wanted {
		return err
	}
	return committer(func() error {
		return d.transaction(func(ctx context.Context) error { return write(ctx, d.writer) })
	})
}

// asideStatement returns the settings of a transaction. A server that stops in it must not block the others. A server
// that has finished a step continues after it without reading it again, so the commit must be durable: hence
// synchronous_commit is not off.
func (l limits) asideStatement() string {
	return fmt.Sprintf(`SELECT set_config('lock_timeout', '%dms', true), set_config('idle_in_transaction_session_timeout', '%dms', true),
`+durableSQL,
		l.lock.Milliseconds(), l.step.Milliseconds())
}

func (p *postgresDriver) aside(ctx context.Context, _ func(func() error) error, read func(context.Context, sqlConn, bool) (bool, error),
	write func(context.Context, sqlConn) error) (err error) {
	bounded, cancel := boundedBy(ctx, 2*p.limits.step)
	defer cancel()
	tx, err := p.readers.BeginTx(bounded, &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // sees the step that it waited for
	if err != nil {
		return unavailable(err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // or it has ended already
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = fmt.Errorf("%w: no answer in %v", resources.ErrUnavailable, 2*p.limits.step)
		}
	}()
	for _, statement := range []string{p.prelude, p.limits.asideStatement()} {
		if statement == "" {
			continue
		}
		if _, err := tx.ExecContext(bounded, statement); err != nil {
			return unavailable(err)
		}
	}
	if err := p.timelines.followHere(bounded, tx); err != nil {
		return err
	}
	wanted, err := read(bounded, tx, true)
	if err != nil {
		return err
	}
	if wanted {
		if err := write(bounded, tx); err != nil {
			return unavailable(err)
		}
	}
	if err := tx.Commit(); err != nil {
		return unavailable(err)
	}
	return nil
}
