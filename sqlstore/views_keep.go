package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
)

const (
	// viewsSuffix is appended to the name of the tables' schema for the schema of the views.
	viewsSuffix = "_views"
	// viewsLock is, with the class of a control plane, the advisory lock under which one server at a time writes views.
	viewsLock = -1
	// viewsLockTimeout is how long a view waits for its readers, and viewsBusy for how many views that is done: readers
	// of views that are written already wait for the whole transaction.
	viewsLockTimeout = 2 * time.Second
	viewsBusy        = 4
	// viewsTime is how long the whole transaction may take.
	viewsTime = time.Minute

	insufficientPrivilege = "42501"
	deadlockDetected      = "40P01"
	queryCanceled         = "57014"
)

// keepViews implements driver: the views are in a schema of their own. They are written in a transaction of their own,
// which does not wait for writers of objects, nor do these wait for it. The comment of a view has the hash of its
// statement.
func (p *postgresDriver) keepViews(ctx context.Context, wanted []views.View, _ func(func() error) error) (left map[string]error, err error) {
	bounded, cancel := boundedBy(ctx, viewsTime)
	defer cancel()
	err = retryDead(postgresReaders, func() (bool, error) {
		err := pgx.BeginFunc(bounded, p.pool, func(tx pgx.Tx) error {
			k := viewKeeper{tx: tx, postgresDriver: p, left: map[string]error{}}
			left = k.left
			return k.keep(bounded, wanted)
		})
		return bounded.Err() == nil, err
	})
	var refusal *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		return left, nil
	case errors.Is(err, ErrViewsRefused):
		return nil, err
	case errors.As(err, &refusal) && refusal.Code == insufficientPrivilege:
		return nil, fmt.Errorf("%w: %w", ErrViewsRefused, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%w: the views could not be kept in %v", resources.ErrUnavailable, viewsTime)
	}
	return nil, fmt.Errorf("keep the views: %w", unavailable(err))
}

// viewKeeper writes views in a transaction.
type viewKeeper struct {
	*postgresDriver
	tx     pgx.Tx
	schema string // of the views
	left   map[string]error
	busy   int // how many of them are being read by others
}

// begin sets time limits for the transaction, also for the case that the server is gone or stopped.
func (k *viewKeeper) begin(ctx context.Context) error {
	for _, statement := range []string{k.prelude, unhurriedSQL, fmt.Sprintf(`SELECT set_config('lock_timeout', '%dms', true), set_config('statement_timeout', '%dms', true),
set_config('idle_in_transaction_session_timeout', '%dms', true)`, viewsLockTimeout.Milliseconds(), k.limits.step.Milliseconds(), k.limits.idle.Milliseconds())} {
		if statement == "" {
			continue
		}
		if _, err := k.tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (k *viewKeeper) keep(ctx context.Context, wanted []views.View) error {
	if err := k.begin(ctx); err != nil {
		return err
	}
	var d postgresViews
	var there bool
	const look = `SELECT current_schema(), current_setting('server_version_num')::int >= 160000, EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = current_schema() || $1)`
	if err := k.tx.QueryRow(ctx, look, viewsSuffix).Scan(&d.tables, &d.checked, &there); err != nil {
		return err
	}
	if k.schema = d.tables + viewsSuffix; len(k.schema) > schemaMax {
		return fmt.Errorf("%w: the name of their schema, %q, is too long for Postgres", ErrViewsRefused, k.schema)
	}
	if _, err := k.tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", k.locks, viewsLock); err != nil {
		return err
	}
	if !there {
		if len(wanted) == 0 {
			return nil
		}
		if _, err := k.tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+nameSQL(k.schema)); err != nil {
			return err
		}
	}
	have, err := k.have(ctx)
	if err != nil {
		return err
	}
	for _, v := range defineViews(d, wanted) {
		had, ok := have[v.name]
		delete(have, v.name)
		comment := viewComment(v)
		if had == comment || ok && had == "" {
			continue
		}
		if err := k.write(ctx, v, comment); err != nil {
			return err
		}
	}
	for name, comment := range have {
		if comment != "" {
			if _, err := k.try(ctx, name, "DROP VIEW "+k.named(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// viewComment returns the comment of a view, which identifies it as Rowlock's and contains the hash of its statement.
func viewComment(v definedView) string {
	return fmt.Sprintf("rowlock %x: %s (docs/sql.md)", sha256.Sum256([]byte(v.query)), v.name)
}

// have returns the relations of the schema, with the comments of those that have one.
func (k *viewKeeper) have(ctx context.Context) (map[string]string, error) {
	rows, err := k.tx.Query(ctx, `SELECT c.relname, coalesce(obj_description(c.oid, 'pg_class'), '') FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind NOT IN ('i', 'I')`, k.schema)
	if err != nil {
		return nil, err
	}
	have := map[string]string{}
	var name, comment string
	_, err = pgx.ForEachRow(rows, []any{&name, &comment}, func() error {
		if !strings.HasPrefix(comment, "rowlock ") {
			comment = ""
		}
		have[name] = comment
		return nil
	})
	return have, err
}

// write creates or replaces a view. If its columns have changed, the old view is dropped first, which fails if somebody
// has created a view on it.
func (k *viewKeeper) write(ctx context.Context, v definedView, comment string) error {
	if err := v.sayable(); err != nil {
		k.left[v.name] = err
		return nil
	}
	// A role that may only read views cannot get at hidden rows with functions that are evaluated before the view's
	// conditions.
	create := " VIEW " + k.named(v.name) + " WITH (security_barrier) AS " + v.query + "; COMMENT ON VIEW " + k.named(v.name) + " IS " + textSQL(comment)
	if again, err := k.try(ctx, v.name, "CREATE OR REPLACE"+create); !again || err != nil {
		return err
	}
	_, err := k.try(ctx, v.name, "DROP VIEW IF EXISTS "+k.named(v.name)+"; CREATE"+create)
	return err
}

// errBusy says why a view is not even tried.
var errBusy = errors.New("others are read, and were waited for long enough")

// try runs statements, which are rolled back if the database refuses them, or if they would have to wait for the
// readers of the view. That is recorded in left, and does not prevent other views. other reports that other statements
// may succeed.
func (k *viewKeeper) try(ctx context.Context, name, statements string) (other bool, err error) {
	if k.busy >= viewsBusy {
		k.left[name] = errBusy
		return false, nil
	}
	// Separately: if the database cannot parse the statements, it runs none of them.
	if err := k.exec(ctx, "SAVEPOINT view"); err != nil {
		return false, err
	}
	err = k.exec(ctx, statements+"; RELEASE view")
	var e *pgconn.PgError
	if !errors.As(err, &e) || ctx.Err() != nil {
		if err == nil {
			delete(k.left, name)
		}
		return false, err
	}
	k.left[name] = err
	if err := k.exec(ctx, "ROLLBACK TO view; RELEASE view"); err != nil {
		return false, err
	}
	switch e.Code {
	case lockNotAvailable, deadlockDetected, queryCanceled:
		k.busy++
		return false, nil
	case insufficientPrivilege:
		var may bool
		if err := k.tx.QueryRow(ctx, "SELECT has_schema_privilege($1::text, 'CREATE')", k.schema).Scan(&may); err != nil || !may {
			return false, errors.Join(e, err)
		}
		return false, nil // the view belongs to another role
	}
	return true, nil
}

// exec runs several statements.
func (k *viewKeeper) exec(ctx context.Context, statements string) error {
	return k.tx.Conn().PgConn().Exec(ctx, statements).Close()
}

func (k *viewKeeper) named(name string) string { return nameSQL(k.schema) + "." + nameSQL(name) }
