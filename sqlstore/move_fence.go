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

// fence keeps everybody from writing to a database: it is a transaction that holds the lock which every batch needs, that of the counter
// on Postgres, that of writers on SQLite. So it ends with the process or the connection that has it, unless last is called, which marks the store as
// moved in the same transaction. From then on triggers refuse what is written, whichever release the server is of.
type fence struct {
	db       *sql.DB
	conn     *sql.Conn
	postgres bool
	over     bool
}

const (
	// movedState is the SQLSTATE of the trigger's error, of a class that nobody else uses.
	movedState = "RL001"
	movedText  = "the store has moved to "

	makeMovedSQL = `CREATE TABLE IF NOT EXISTS moved (place TEXT NOT NULL)`
	// makeMovedForAllSQL lets every server look whether the store has moved, whichever role it has.
	makeMovedForAllSQL = `DO $$ BEGIN ` + makeMovedSQL + `; GRANT SELECT ON moved TO PUBLIC; END $$`
	markMovedSQL       = `INSERT INTO moved (place) SELECT $1 WHERE NOT EXISTS (SELECT 1 FROM moved)`

	// The trigger is there before the fence, and does nothing until the row is: to make it takes locks that writers hold. It is asked once
	// for each statement, by the state that this statement sees.
	makeRefusalSQL = `CREATE OR REPLACE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE there text;
BEGIN
  EXECUTE format('SELECT place FROM %I.moved LIMIT 1', TG_TABLE_SCHEMA) INTO there;
  IF there IS NOT NULL THEN RAISE EXCEPTION '` + movedText + `%', there USING ERRCODE = '` + movedState + `'; END IF;
  RETURN NULL;
END $$`
)

// movedTriggers are made where the tables are.
var movedTriggers = []string{
	`CREATE OR REPLACE TRIGGER moved_changes BEFORE INSERT ON changes FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()`,
	`CREATE OR REPLACE TRIGGER moved_meta BEFORE UPDATE ON meta FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()`,
}

// fenceLockTimeout is how long the triggers may wait for the tables, while those who write wait behind them.
const fenceLockTimeout = "200ms"

// prepareAttempts is how often that is tried.
const prepareAttempts = 50

// prepareFence makes what the fence needs. Nobody waits for it for longer than fenceLockTimeout. It changes nothing for who writes.
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

// patiently runs a statement in a transaction of its own, and again when it had to wait for a lock.
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

// ErrNotOwner says that a role cannot do what a move makes in its source.
var ErrNotOwner = errors.New("the user of the source has to own its tables, or to be a member of the role that does, for triggers are made there")

// beOwner takes the role that owns the tables, so that what is made there is that role's, too: else servers could not read it, nor anybody remove it again.
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

// checkFence refuses a source in which prepareFence would fail for want of rights.
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

// beginBetween starts a transaction on SQLite between two of who writes all the time. SQLite gives the lock to whoever asks while it is free, and
// its own way of waiting asks ever more rarely.
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

// raiseFence returns when nobody writes any more. On Postgres the database ends the fence when it is idle for longer than it may be held: its process is
// stopped.
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
		// Writers take their turns for the row: who waits gets his, however long it takes.
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

// last marks the store as moved, for good. After an error it may be marked or not.
func (f *fence) last(ctx context.Context, place string) error {
	var statements []string
	if !f.postgres {
		// Not by RAISE, which servers of releases before take for an error of the request (422), and not of the database (503).
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
	// Another process may have moved the store elsewhere before the fence was there.
	switch there, err := movedTo(ctx, f.conn, f.postgres); {
	case err != nil:
		return err
	case there != place:
		return fmt.Errorf("%w to %s", resources.ErrMoved, there)
	}
	// It is not to be known by half whether this happened: the time that writes are held does not end it.
	if _, err := f.conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("mark the source as moved: %w", err)
	}
	f.over = true
	return nil
}

// lift lets everybody write again, unless last has succeeded.
func (f *fence) lift() error {
	var errs []error
	if !f.over {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_, _ = f.conn.ExecContext(ctx, "ROLLBACK") // there may be none, and to close the connection has the same effect
	}
	return errors.Join(append(errs, f.conn.Close(), f.db.Close())...)
}

// movedTo says where the store has moved to, or "".
func movedTo(ctx context.Context, from querier, postgres bool) (place string, err error) {
	if found, err := hasTable(ctx, from, postgres, "moved"); err != nil || !found {
		return "", err
	}
	err = from.QueryRowContext(ctx, "SELECT coalesce(max(place), '') FROM moved").Scan(&place)
	return place, err
}

// checkPlace refuses a database that is not a store any more, or not yet.
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

// checkPlace is the same, of a Postgres.
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

// movedPlace is where the store has moved to by what the trigger says, without what the database has made of it: clients read it.
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
