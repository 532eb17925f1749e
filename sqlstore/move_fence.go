package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources"
)

// fence blocks all writes to a database: it is a transaction that holds the lock which every batch needs, that of the
// counter in Postgres, that of writers in SQLite. So it ends with its process or connection, unless last is called,
// which marks the store as moved in the same transaction. From then on triggers refuse writes, whichever release the
// server is of.
type fence struct {
	db       *sql.DB
	conn     *sql.Conn
	postgres bool
	over     bool
}

const (
	// movedState is the SQLSTATE of the trigger's error, in a class without other uses.
	movedState = "RL001"
	movedText  = "the store has moved to "

	makeMovedSQL = `CREATE TABLE IF NOT EXISTS moved (place TEXT NOT NULL)`
	// makeMovedForAllSQL lets every server check whether the store has moved, whichever role it has.
	makeMovedForAllSQL = `DO $$ BEGIN ` + makeMovedSQL + `; GRANT SELECT ON moved TO PUBLIC; END $$`
	markMovedSQL       = `INSERT INTO moved (place) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM moved)`

	// The trigger is created before the fence, because that takes locks that writers hold; it does nothing until the
	// row exists. It runs once for each statement, and sees the same state as that statement.
	makeRefusalSQL = `CREATE OR REPLACE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE there text;
BEGIN
  EXECUTE format('SELECT place FROM %I.moved LIMIT 1', TG_TABLE_SCHEMA) INTO there;
  IF there IS NOT NULL THEN RAISE EXCEPTION '` + movedText + `%', there USING ERRCODE = '` + movedState + `'; END IF;
  RETURN NULL;
END $$`
)

// movedTriggers are created on the tables.
var movedTriggers = []string{
	`CREATE OR REPLACE TRIGGER moved_changes BEFORE INSERT ON changes FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()`,
	`CREATE OR REPLACE TRIGGER moved_meta BEFORE UPDATE ON meta FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()`,
}

// fenceLockTimeout is how long creating the triggers may wait for the tables, while writers wait behind it.
const fenceLockTimeout = "200ms"

// prepareAttempts is how often the creation of an object is tried.
const prepareAttempts = 50

// prepareFence creates the objects that the fence needs. No attempt delays writers for more than fenceLockTimeout, and
// the objects do nothing until last has marked the store.
func prepareFence(ctx context.Context, o *Options) error {
	if !isPostgres(o.URL) {
		return nil
	}
	f, err := openFence(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.lift()) }()
	statements := append([]string{makeMovedForAllSQL, makeRefusalSQL}, movedTriggers...)
	for _, statement := range statements {
		if err := f.patiently(ctx, o, statement); err != nil {
			return err
		}
	}
	return nil
}

// patiently runs a statement in a transaction of its own, and repeats it when it had to wait for a lock.
func (f *fence) patiently(ctx context.Context, o *Options, statement string) error {
	var err error
	for range prepareAttempts {
		if err = f.begin(ctx, o); err == nil {
			_, err = f.conn.ExecContext(ctx, statement)
		}
		end := "COMMIT"
		if err != nil {
			end = "ROLLBACK"
		}
		_, eerr := f.conn.ExecContext(ctx, end)
		if err = errors.Join(err, eerr); err == nil || !isLockTimeout(err) {
			return err
		}
		wait := time.NewTimer(100 * time.Millisecond)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		}
	}
	return err
}

func openFence(ctx context.Context, o *Options) (_ *fence, err error) {
	f := &fence{postgres: isPostgres(o.URL)}
	if f.postgres {
		config, err := commandConfig(ctx, o)
		if err != nil {
			return nil, err
		}
		f.db = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(registerTypes))
	} else {
		path, err := sqlitePath(o.URL)
		if err != nil {
			return nil, err
		}
		if f.db, err = sql.Open("sqlite", sqliteName(path, "full")); err != nil {
			return nil, err
		}
	}
	if f.conn, err = f.db.Conn(ctx); err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	return f, nil
}

// begin starts a transaction.
func (f *fence) begin(ctx context.Context, o *Options) error {
	if !f.postgres {
		return f.beginBetween(ctx)
	}
	statements := []string{beginSQL}
	if o.Schema != "" {
		statements = append(statements, setSearchPath(o.Schema))
	}
	for _, statement := range append(statements, "SET LOCAL lock_timeout = '"+fenceLockTimeout+"'") {
		if _, err := f.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return f.beOwner(ctx)
}

// ErrNotOwner says that a role lacks the rights for a move's changes of its source.
var ErrNotOwner = errors.New("the user of the source has to own its tables, or to be a member of the role that does, for triggers are made there")

// beOwner takes the role that owns the tables, so that the new objects belong to it, too: otherwise servers could not
// read them, nor could their administrator remove them.
func (f *fence) beOwner(ctx context.Context) error {
	const look = `SELECT min(pg_get_userbyid(relowner)), count(DISTINCT relowner) = 1, bool_and(pg_get_userbyid(relowner) = current_user),
bool_and(has_schema_privilege(relowner, relnamespace, 'CREATE')) FROM pg_class WHERE oid IN ('meta'::regclass, 'changes'::regclass)`
	var owner string
	var one, is, may bool
	if err := f.conn.QueryRowContext(ctx, look).Scan(&owner, &one, &is, &may); err != nil {
		return err
	}
	if !one {
		return fmt.Errorf("%w: they have several owners", ErrNotOwner)
	}
	if !may {
		return fmt.Errorf("the role %s, which owns the tables, needs the right to create tables in their schema, for one is made there", owner)
	}
	if is {
		return nil
	}
	_, err := f.conn.ExecContext(ctx, "SET LOCAL ROLE "+nameSQL(owner))
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == insufficientPrivilege {
		return fmt.Errorf("%w: that is %s", ErrNotOwner, owner)
	}
	return err
}

// checkFence refuses a source in which prepareFence would fail because of missing rights.
func checkFence(ctx context.Context, o *Options) (err error) {
	if !isPostgres(o.URL) {
		return nil
	}
	f, err := openFence(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.lift()) }()
	return f.begin(ctx, o)
}

// beginBetween starts a transaction in SQLite while others write all the time. SQLite gives the lock to any process
// that asks while it is free, and its own busy handler asks ever more rarely.
func (f *fence) beginBetween(ctx context.Context) error {
	if _, err := f.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		return err
	}
	again := time.NewTicker(500 * time.Microsecond)
	defer again.Stop()
	for {
		_, err := f.conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		if !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// raiseFence returns when all writes are blocked. Postgres ends a fence that is idle for longer than it may be held, since
// its process must have been stopped.
func raiseFence(ctx context.Context, o *Options, hold time.Duration) (_ *fence, err error) {
	f, err := openFence(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.lift())
		}
	}()
	if err := f.begin(ctx, o); err != nil {
		return nil, err
	}
	if f.postgres {
		// Writers take turns for the row: a waiting one gets its turn, however long that takes.
		held := usualLimits
		held.lock, held.idle = 0, hold+usualLimits.idle
		for _, statement := range []string{unhurriedSQL, held.statement(), "SELECT FROM meta FOR UPDATE"} {
			if _, err := f.conn.ExecContext(ctx, statement); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// last marks the store as moved, for good. After an error the mark may or may not be set.
func (f *fence) last(ctx context.Context, place string) error {
	var statements []string
	if !f.postgres {
		// Not by RAISE: earlier releases take that for an error of the request (422), and not of the database (503).
		refuse := " BEGIN SELECT json_extract('{}', " + textSQL(movedText+place) + "); END"
		statements = []string{makeMovedSQL,
			"CREATE TRIGGER IF NOT EXISTS moved_changes BEFORE INSERT ON changes" + refuse,
			"CREATE TRIGGER IF NOT EXISTS moved_meta BEFORE UPDATE ON meta" + refuse}
	}
	for _, statement := range statements {
		if _, err := f.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := f.conn.ExecContext(ctx, markMovedSQL, place); err != nil {
		return err
	}
	// Another process may have moved the store elsewhere before this fence was raised.
	switch there, err := movedTo(ctx, f.conn, f.postgres); {
	case err != nil:
		return err
	case there != place:
		return fmt.Errorf("%w to %s", resources.ErrMoved, there)
	}
	// The outcome must be known: the time limit for holding writes does not cancel this.
	if _, err := f.conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("mark the source as moved: %w", err)
	}
	f.over = true
	return nil
}

// lift allows writes again, unless last has succeeded.
func (f *fence) lift() error {
	var errs []error
	if !f.over {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_, _ = f.conn.ExecContext(ctx, "ROLLBACK") // there may be no transaction, and closing the connection has the same effect
	}
	return errors.Join(append(errs, f.conn.Close(), f.db.Close())...)
}

// movedTo returns where the store has moved to, or "".
func movedTo(ctx context.Context, from querier, postgres bool) (place string, err error) {
	if found, err := hasTable(ctx, from, postgres, "moved"); err != nil || !found {
		return "", err
	}
	err = from.QueryRowContext(ctx, "SELECT coalesce(max(place), '') FROM moved").Scan(&place)
	return place, err
}

// checkPlace refuses a database that is no longer a store, or not yet.
func checkPlace(ctx context.Context, from querier, postgres bool) error {
	place, err := movedTo(ctx, from, postgres)
	if err != nil {
		return err
	}
	if place != "" {
		return fmt.Errorf("%w to %s", resources.ErrMoved, place)
	}
	unfinished, err := hasTable(ctx, from, postgres, "moving")
	if err == nil && unfinished {
		err = ErrMoving
	}
	return err
}

// checkPlace is the function of that name for a Postgres.
func (d *database) checkPlace(ctx context.Context) error {
	tx, err := d.beginRead(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	err = checkPlace(ctx, tx, true)
	if err != nil && !errors.Is(err, resources.ErrMoved) && !errors.Is(err, ErrMoving) {
		err = unavailable(err)
	}
	return err
}

// isMoved reports whether a trigger has refused a write.
func isMoved(err error) bool {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code == movedState
	}
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR && strings.Contains(e.Error(), movedText)
}

// movedPlace returns where the store has moved to from the trigger's error, without what the database adds: clients
// read it.
func movedPlace(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return strings.TrimPrefix(pgErr.Message, movedText)
	}
	_, place, _ := strings.Cut(err.Error(), movedText)
	if end := strings.LastIndexByte(place, '\''); end >= 0 {
		place = place[:end] // SQLite quotes it
	}
	return place
}
