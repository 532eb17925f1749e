package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/migrations"
)

// postgresTarget fills the tables of a schema in one transaction, which holds the lock of the counter: a server that
// starts meanwhile waits for it or gives up.
type postgresTarget struct {
	db   *sql.DB
	conn *pgx.Conn
	tx   pgx.Tx
}

// emptySQL returns whether the tables were never written to.
const emptySQL = `SELECT NOT EXISTS (SELECT 1 FROM objects) AND NOT EXISTS (SELECT 1 FROM changes) AND
NOT EXISTS (SELECT 1 FROM meta m WHERE coalesce(m.revision, m.floor) > 1) AND NOT EXISTS (SELECT 1 FROM servers)`

// errSchemaNotEmpty is ErrNotEmpty with a reason.
var errSchemaNotEmpty = fmt.Errorf("%w: the schema has objects, had some, or has a server", ErrNotEmpty)

func postgresEmpty(ctx context.Context, tx *sql.Tx) error {
	var empty bool
	if err := tx.QueryRowContext(ctx, emptySQL).Scan(&empty); err != nil {
		return err
	}
	if !empty {
		return errSchemaNotEmpty
	}
	return nil
}

// rightsSQL returns the schema for the tables, whether it exists, the role's rights there, and the version of the
// Postgres. current_schema() skips schemas that the role may not use. The two rights need two calls: one call that names
// both would return true for either.
const rightsSQL = `SELECT coalesce(s.name, ''), n.oid IS NOT NULL, has_database_privilege(current_database(), 'CREATE'),
coalesce(has_schema_privilege(n.oid, 'USAGE') AND has_schema_privilege(n.oid, 'CREATE'), false), ` + versionSQL + `
FROM (SELECT coalesce(nullif($1::text, ''), current_schema()) AS name) s LEFT JOIN pg_namespace n ON n.nspname = s.name`

// errNoSchema says that no schema was named, and that the search path has none that the role may use.
var errNoSchema = errors.New("of the schemas in its search_path, the role may use none: it needs USAGE and CREATE on one")

// mayMakeTables refuses a schema without tables if the role may not create any there, or if no server would use the
// database.
func mayMakeTables(ctx context.Context, o *Options) (err error) {
	s := &Source{postgres: true}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.openPostgres(ctx, o); err != nil {
		return err
	}
	var schema string
	var there, mayMakeSchemas, mayFill bool
	var v version
	if err := s.tx.QueryRowContext(ctx, rightsSQL, o.Schema).Scan(&schema, &there, &mayMakeSchemas, &mayFill, &v.number, &v.name); err != nil {
		return err
	}
	if err := v.check(); err != nil {
		return err
	}
	switch {
	case schema == "":
		return errNoSchema
	case !there && !mayMakeSchemas:
		return fmt.Errorf("there is no schema %q, and the role may not make it: it needs CREATE on the database", schema)
	case there && !mayFill:
		return fmt.Errorf("the role may not make tables in the schema %q: it needs USAGE and CREATE on it", schema)
	}
	return nil
}

func openPostgresTarget(ctx context.Context, o *Options) (_ filler, err error) {
	config, err := commandConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	t := &postgresTarget{}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	t.db = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(registerTypes))
	if t.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := registerTypes(ctx, t.conn); err != nil {
		return nil, err
	}
	if o.Schema != "" {
		if err := makeSchema(ctx, t.conn, o.Schema); err != nil {
			return nil, err
		}
	}
	if err := migrations.Postgres(ctx, t.db, o.Schema); err != nil {
		return nil, err
	}
	if t.tx, err = t.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
		return nil, err
	}
	for _, statement := range []string{unhurriedSQL, "SELECT " + durableSQL} {
		if _, err := t.tx.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	if o.Schema != "" {
		if _, err := t.tx.Exec(ctx, setSearchPath(o.Schema)); err != nil {
			return nil, err
		}
	}
	return t, t.lock(ctx)
}

// lock locks servers and other fillers out until the end of the transaction, and refuses a database that has rows or is
// the target of a move. In READ COMMITTED it sees what those have written that it waited for.
func (t *postgresTarget) lock(ctx context.Context) error {
	if _, err := t.tx.Exec(ctx, "SELECT FROM meta FOR UPDATE"); err != nil {
		return err
	}
	var begun, empty bool
	if err := t.tx.QueryRow(ctx, hasTableSQL, "moving").Scan(&begun); err != nil {
		return err
	}
	if begun {
		return ErrMoving
	}
	if err := t.tx.QueryRow(ctx, emptySQL).Scan(&empty); err != nil {
		return err
	}
	if !empty {
		return errSchemaNotEmpty
	}
	return nil
}

// copied yields rows for CopyFrom.
type copied struct {
	next func() ([]any, error)
	row  []any
	err  error
}

func (c *copied) Next() bool {
	c.row, c.err = c.next()
	return c.err == nil
}

func (c *copied) Values() ([]any, error) { return c.row, nil }

func (c *copied) Err() error {
	if errors.Is(c.err, io.EOF) {
		return nil
	}
	return c.err
}

func (t *postgresTarget) fill(ctx context.Context, table string, columns []string, next func() ([]any, error)) error {
	_, err := t.tx.CopyFrom(ctx, pgx.Identifier{table}, columns, &copied{next: next})
	return err
}

func (t *postgresTarget) now(ctx context.Context) (time.Time, error) {
	var ms int64
	err := t.tx.QueryRow(ctx, nowSQL).Scan(&ms)
	return milliseconds(ms), err
}

// commit leaves meta.origin empty, as the first server expects of new tables.
func (t *postgresTarget) commit(ctx context.Context, revision int64) error {
	if _, err := t.tx.Exec(ctx, "UPDATE meta SET revision = $1, floor = $1, history_bytes = 0", revision); err != nil {
		return err
	}
	return t.tx.Commit(ctx)
}

func (t *postgresTarget) close() error {
	var errs []error
	if t.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		errs = append(errs, t.conn.Close(ctx)) // this ends the transaction
	}
	if t.db != nil {
		errs = append(errs, t.db.Close())
	}
	return errors.Join(errs...)
}
