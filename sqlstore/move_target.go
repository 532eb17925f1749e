package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/resources/files"
)

// moveTarget is a database that becomes a store when it is finished. Until then it has the table moving, because of
// which Open refuses it. A SQLite file has another name until then.
type moveTarget struct {
	db     *sql.DB
	begin  []string // the statements that begin a transaction
	path   string   // of the SQLite file that it will become; empty: it is a Postgres
	lock   *fileLock
	schema string
	source string
	owner  string // of the process that is filling it
	seen   int64  // the revision of the source that it has
}

// moving is the suffix of an unfinished file's name.
const moving = ".moving"

const (
	// makeMovingSQL makes the table that says that a database is being filled: from which source, by which process, up
	// to which revision.
	makeMovingSQL = `CREATE TABLE moving (id INTEGER PRIMARY KEY CHECK (id = 1), source TEXT NOT NULL, owner TEXT NOT NULL, revision BIGINT NOT NULL)`
	ownSQL        = `UPDATE moving SET owner = $1`
	// beginOwnedSQL changes nothing. It locks the table until the end of the transaction.
	beginOwnedSQL = `UPDATE moving SET owner = owner WHERE owner = $1`
	noteSQL       = `UPDATE moving SET revision = $1`
)

// ErrMoving says that a database is not a store yet.
var ErrMoving = errors.New("'rowlock migrate' was begun to fill this database, and has not ended: run it again")

// checkNotMoving refuses the name of a file for which there is an unfinished move: Open would refuse any file that is
// made with that name, and the move would end with ErrNotEmpty.
func checkNotMoving(path string) error {
	_, err := os.Lstat(path + moving)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w, or remove the files %s*", ErrMoving, path+moving)
	}
	return err
}

// lockRetries is how often a Move that has just ended may be found to hold its lock still.
const lockRetries = 25

// lockStore locks the file of a store, if no Move has begun to fill it. While Open waits for a Move, it does not hold the lock, which the Move needs.
func (o *Options) lockStore(ctx context.Context, path string) (lock *fileLock, err error) {
	awaited, retries := false, 0
	err = o.awaitMove(ctx, func() (err error) {
		if err := checkNotMoving(path); err != nil && o.AwaitMove {
			awaited = true
			return err
		}
		if lock, err = lockFile(path); err != nil {
			if retries++; awaited && retries <= lockRetries {
				err = fmt.Errorf("%w: %w", ErrMoving, err)
			}
			return err
		}
		if err := checkNotMoving(path); err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), lock.release())
			lock = nil
			return err
		}
		return nil
	})
	return lock, err
}

// place names the database of the options, without users and passwords. Different names of the same database yield
// different places.
func (o *Options) place() (string, error) {
	if !isPostgres(o.URL) {
		return sqlitePath(o.URL)
	}
	config, err := parsePostgres(o.URL)
	if err != nil {
		return "", err
	}
	c := config.ConnConfig
	place := fmt.Sprintf("postgres://%s:%d/%s", c.Host, c.Port, c.Database)
	if o.Schema != "" {
		place += ", schema " + o.Schema
	}
	return place, nil
}

func openMoveTarget(ctx context.Context, o *Options, source string) (_ *moveTarget, err error) {
	t := &moveTarget{source: source, schema: o.Schema, owner: rand.Text()}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if isPostgres(o.URL) {
		err = t.openPostgres(ctx, o)
	} else {
		err = t.openSQLite(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	return t, t.in(ctx, t.adopt)
}

func (t *moveTarget) openPostgres(ctx context.Context, o *Options) error {
	config, err := commandConfig(ctx, o)
	if err != nil {
		return err
	}
	if err := mayMakeTables(ctx, o); err != nil {
		return err
	}
	t.begin = []string{unhurriedSQL, "SELECT " + durableSQL}
	if o.Schema != "" {
		t.begin = append(t.begin, setSearchPath(o.Schema))
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		if err := errors.Join(makeSchema(ctx, conn, o.Schema), conn.Close(ctx)); err != nil {
			return err
		}
	}
	t.db = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(registerTypes))
	t.db.SetMaxOpenConns(1)
	return migrations.Postgres(ctx, t.db, o.Schema)
}

func (t *moveTarget) openSQLite(ctx context.Context, o *Options) (err error) {
	if t.path, err = sqliteTargetPath(o.URL); err != nil {
		return err
	}
	if err := files.MakeDir(filepath.Dir(t.path)); err != nil {
		return err
	}
	if t.lock, err = lockFile(t.path); err != nil {
		return err
	}
	if err := checkNoFile(t.path); err != nil {
		return err
	}
	if err := makePrivate(t.path + moving); err != nil {
		return err
	}
	// With normal, a power cut may undo the last steps, but not those before.
	if t.db, err = sql.Open("sqlite", sqliteName(t.path+moving, "normal")); err != nil {
		return err
	}
	t.db.SetMaxOpenConns(1)
	return migrations.SQLite(ctx, t.db)
}

// in runs f in a transaction, which sees what others have written that it waited for.
func (t *moveTarget) in(ctx context.Context, f func(context.Context, *sql.Tx) error) error {
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	for _, statement := range t.begin {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if err := f(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// partOf is the error for a target that another source has begun to fill.
func partOf(source string) error {
	return fmt.Errorf("%w: the target has a part of %s. Remove that, or give another target", ErrNotEmpty, source)
}

// adopt accepts an empty database, or one that another process has begun to fill from the same source.
func (t *moveTarget) adopt(ctx context.Context, tx *sql.Tx) error {
	begun, err := hasTable(ctx, tx, t.path == "", "moving")
	if err != nil {
		return err
	}
	if begun {
		var source string
		if err := tx.QueryRowContext(ctx, "SELECT source, revision FROM moving").Scan(&source, &t.seen); err != nil {
			return err
		}
		if source != t.source {
			return partOf(source)
		}
		_, err := tx.ExecContext(ctx, ownSQL, t.owner) // the process that has filled it until now finds out, and stops
		return err
	}
	if err := t.empty(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, makeMovingSQL); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO moving (id, source, owner, revision) VALUES (1, $1, $2, 0)", t.source, t.owner)
	return err
}

// empty refuses a database that is a store. A SQLite file that was finished but not renamed can be filled again.
func (t *moveTarget) empty(ctx context.Context, tx *sql.Tx) error {
	if t.path != "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SELECT FROM meta FOR UPDATE"); err != nil {
		return err
	}
	return postgresEmpty(ctx, tx)
}

// do runs f in a transaction, unless another process has begun to fill the database.
func (t *moveTarget) do(ctx context.Context, f func(tx *sql.Tx) error) error {
	return t.in(ctx, func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, beginOwnedSQL, t.owner)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(errors.New("another 'rowlock migrate' fills the target now"), err)
		}
		return f(tx)
	})
}

// note stores which revision of the source the database has; 0: parts of several states.
func (t *moveTarget) note(ctx context.Context, tx *sql.Tx, revision int64) error {
	_, err := tx.ExecContext(ctx, noteSQL, revision)
	return err
}

// ready refuses a target that finish could not make a store: one that a server has begun to use, or whose name is
// taken.
func (t *moveTarget) ready(ctx context.Context) error {
	err := t.do(ctx, func(tx *sql.Tx) error { return t.unbegun(ctx, tx) })
	if err == nil && t.path != "" {
		err = checkNoFile(t.path)
	}
	if err != nil {
		return fmt.Errorf("finish the target: %w", err)
	}
	return nil
}

// unbegun refuses a Postgres to which a server has begun to write, of a release that does not know the table moving,
// and locks such servers out until the end of the transaction.
func (t *moveTarget) unbegun(ctx context.Context, tx *sql.Tx) error {
	if t.path != "" {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "SELECT FROM meta FOR UPDATE"); err != nil {
		return err
	}
	var begun bool
	if err := tx.QueryRowContext(ctx, begunSQL).Scan(&begun); err != nil {
		return err
	}
	if begun {
		return fmt.Errorf("%w: a server has begun to write to the target", ErrNotEmpty)
	}
	return nil
}

// writer writes rows into the table of the target that a source's table has become: objects is a view of SQLite.
func (t *moveTarget) writer(tx *sql.Tx, of *sourceTable) *rowWriter {
	w := &rowWriter{tx: tx, table: of, into: of.name}
	if t.path != "" && of.name == objectsView {
		w.into = objectsTable
	}
	return w
}

// finish makes the target a store that begins at a revision. It leaves meta.origin empty, as the first server expects
// of new tables.
func (t *moveTarget) finish(ctx context.Context, revision int64) error {
	err := t.do(ctx, func(tx *sql.Tx) error {
		if err := t.unbegun(ctx, tx); err != nil {
			return err
		}
		set := "UPDATE meta SET revision = $1, floor = $1, history_bytes = 0"
		if t.path != "" {
			set += ", inline = $1"
		}
		if _, err := tx.ExecContext(ctx, set, revision); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DROP TABLE moving")
		return err
	})
	if err != nil {
		return fmt.Errorf("finish the target: %w", err)
	}
	if t.path == "" {
		return nil
	}
	return t.rename(ctx)
}

const begunSQL = `SELECT EXISTS (SELECT 1 FROM changes) OR EXISTS (SELECT 1 FROM servers) OR
EXISTS (SELECT 1 FROM meta m WHERE coalesce(m.revision, m.floor) > 1)`

// rename gives the file its name, once it is complete and flushed.
func (t *moveTarget) rename(ctx context.Context) error {
	if err := checkNoFile(t.path); err != nil {
		return err
	}
	var busy, frames, moved int
	if err := t.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved); err != nil || busy != 0 {
		return errors.Join(errors.New("the target's write-ahead log cannot be moved into the file"), err)
	}
	err := t.db.Close()
	t.db = nil
	if err == nil {
		err = files.Sync(t.path + moving)
	}
	if err == nil {
		err = os.Rename(t.path+moving, t.path)
	}
	if err == nil {
		err = files.Sync(filepath.Dir(t.path))
	}
	return err
}

func (t *moveTarget) close() error {
	var errs []error
	if t.db != nil {
		errs, t.db = append(errs, t.db.Close()), nil
	}
	if t.lock != nil {
		errs, t.lock = append(errs, t.lock.release()), nil
	}
	return errors.Join(errs...)
}

// querier is a database, a connection or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// hasTableSQL returns whether a table exists in the schema of a Postgres.
const hasTableSQL = "SELECT EXISTS (SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1)"

// hasTable reports whether a table exists.
func hasTable(ctx context.Context, from querier, postgres bool, name string) (found bool, err error) {
	find := "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = $1)"
	if postgres {
		find = hasTableSQL
	}
	err = from.QueryRowContext(ctx, find, name).Scan(&found)
	return found, err
}
