package sqlstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowlock/rowlock/resources/views"
)

const (
	// viewsSuffix is what the schema of the views has after the name of that of the tables.
	viewsSuffix = "_views"
	// viewsLock is, with the class of a control plane, the advisory lock under which one server at a time writes views.
	viewsLock = -1
	// viewsLockTimeout is how long a view waits for those who read it.
	viewsLockTimeout = "2s"

	insufficientPrivilege = "42501"
)

// keepViews implements driver: the views are in a schema of their own, and are written by a transaction of their own, which waits for nobody who
// writes objects, nor they for it. The comment of a view says what it was made of.
func (p *postgresDriver) keepViews(ctx context.Context, wanted []views.View, _ func(func() error) error) error {
	err := retryDead(postgresReaders, func() (bool, error) {
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			k := viewKeeper{tx: tx, postgresDriver: p}
			return k.keep(ctx, wanted)
		})
		return ctx.Err() == nil, err
	})
	var refusal *pgconn.PgError
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, ErrViewsRefused):
		return err
	case errors.As(err, &refusal) && refusal.Code == insufficientPrivilege:
		return fmt.Errorf("%w: %w", ErrViewsRefused, err)
	}
	return fmt.Errorf("keep the views: %w", unavailable(err))
}

// viewKeeper writes views in a transaction.
type viewKeeper struct {
	*postgresDriver
	tx     pgx.Tx
	schema string // of the views
}

func (k *viewKeeper) keep(ctx context.Context, wanted []views.View) error {
	if k.prelude != "" {
		if _, err := k.tx.Exec(ctx, k.prelude); err != nil {
			return err
		}
	}
	var d postgresViews
	var there bool
	const look = `SELECT current_schema(), current_setting('server_version_num')::int >= 160000, EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = current_schema() || $2),
set_config('lock_timeout', $1, true)`
	var ignored string
	if err := k.tx.QueryRow(ctx, look, viewsLockTimeout, viewsSuffix).Scan(&d.tables, &d.checked, &there, &ignored); err != nil {
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
		if comment := viewComment(v); had != comment && (!ok || had != "") {
			if err := k.write(ctx, v, comment); err != nil {
				return err
			}
		}
	}
	for name, comment := range have {
		if comment != "" {
			if err := k.try(ctx, "the view is not removed", name, "DROP VIEW "+k.named(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// viewComment is the comment of a view, by which it is known as Rowlock's, and what it was made of.
func viewComment(v definedView) string {
	return fmt.Sprintf("rowlock %x: %s (docs/sql.md)", sha256.Sum256([]byte(v.query)), v.name)
}

// have returns what is in the schema, with the comments of what is Rowlock's.
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

// write makes a view, or another one in its place: one with other columns than before has to go first, and may not where somebody has made a view of it.
func (k *viewKeeper) write(ctx context.Context, v definedView, comment string) error {
	// Whoever may read views alone gets no rows of others by functions that are evaluated before the conditions of the view.
	create := " VIEW " + k.named(v.name) + " WITH (security_barrier) AS " + v.query + "; COMMENT ON VIEW " + k.named(v.name) + " IS " + textSQL(comment)
	replaced, err := k.attempt(ctx, "CREATE OR REPLACE"+create)
	if err != nil || replaced == nil {
		return err
	}
	return k.try(ctx, "the view stays as it was", v.name, "DROP VIEW IF EXISTS "+k.named(v.name)+"; CREATE"+create)
}

// try runs statements that may fail, which is no reason to give up the others.
func (k *viewKeeper) try(ctx context.Context, consequence, name, statements string) error {
	refused, err := k.attempt(ctx, statements)
	if refused != nil {
		k.logger.Warn(consequence, "view", k.schema+"."+name, "err", refused)
	}
	return err
}

// attempt runs statements, of which nothing is left when one is refused for what it is.
func (k *viewKeeper) attempt(ctx context.Context, statements string) (refused, err error) {
	err = k.exec(ctx, "SAVEPOINT view; "+statements+"; RELEASE view")
	var e *pgconn.PgError
	if !errors.As(err, &e) || ctx.Err() != nil {
		return nil, err
	}
	if e.Code == insufficientPrivilege || isLockTimeout(err) {
		return nil, err // of all of them, or to be tried again
	}
	return err, k.exec(ctx, "ROLLBACK TO view; RELEASE view")
}

// exec runs several statements.
func (k *viewKeeper) exec(ctx context.Context, statements string) error {
	return k.tx.Conn().PgConn().Exec(ctx, statements).Close()
}

func (k *viewKeeper) named(name string) string { return nameSQL(k.schema) + "." + nameSQL(name) }
