package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/migrations"
)

// Source is one state of a database, read while servers go on writing to it. It is not a Store: it returns rows as they
// are stored, and needs neither the lock of a SQLite file nor tables of this version. It belongs to one goroutine, and
// keeps its state until it is closed: meanwhile a SQLite database cannot truncate its write-ahead log, and Postgres
// keeps dead rows.
type Source struct {
	db       *sql.DB
	tx       *sql.Tx
	postgres bool
	path     string      // of the SQLite file
	still    fs.FileInfo // of a file that is read as immutable; nil: it is not
	state    SourceState
	sealer   *sealer
	failing  time.Duration // see sealer.openMany
}

// SourceState says which state of which database a Source reads.
type SourceState struct {
	Kind    string // "sqlite" or "postgres"
	Version int    // of the tables
	// Revision is the counter. Beyond is at least that: revisions up to it may have been assigned before a power cut.
	Revision, Beyond int64
	// Moved is where the store has moved to, without users and passwords; the database is then no longer the store.
	// Empty: it has not moved.
	Moved string
}

// ErrNoTables says that a database exists, but has no tables of Rowlock.
var ErrNoTables = errors.New("the database has no tables of rowlock")

// OpenSource begins to read the database of Options.URL and Options.Schema; Options.Transformers decrypt rows for Query
// and Decrypt. It creates and changes nothing there. Errors: ErrNoTables, ErrMoving for a database that is not a store
// yet, *migrations.NewerError, fs.ErrNotExist for a file, those of the database.
func OpenSource(ctx context.Context, o Options) (_ *Source, err error) {
	if err := errors.Join(CheckURL(o.URL), CheckSchema(o.URL, o.Schema)); err != nil {
		return nil, err
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Source{postgres: isPostgres(o.URL), sealer: o.sealer}
	defer func() {
		if err != nil {
			err = errors.Join(advised(fmt.Errorf("read the database: %w", err)), s.Close())
		}
	}()
	if s.postgres {
		err = s.openPostgres(ctx, &o)
	} else {
		err = s.openSQLite(ctx, &o)
	}
	if err == nil {
		err = s.readState(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CheckTables returns an error for tables of an older version, which Open would upgrade, and ErrNoTables for a database
// without tables, which Open would create. Only servers do that: those that run beside a command may be of a release
// that could not start again on upgraded tables, and a database without tables may have the tables in another schema.
// CheckTables waits for the database like Open, which otherwise might reach one that CheckTables has not seen. All other
// errors it leaves to Open.
func CheckTables(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	var s *Source
	if err := o.await(ctx, func() (err error) {
		s, err = OpenSource(ctx, o)
		return err
	}); err != nil {
		if passes(err) || errors.Is(err, ErrNoTables) {
			return err
		}
		return nil
	}
	defer s.Close() //nolint:errcheck // it was only read
	if known, err := migrations.Known(s.state.Kind); err != nil || s.state.Version < known {
		return cmp.Or(err, fmt.Errorf("the tables have version %d, and only servers bring them to %d: use the rowlock of those that run, or start one of this version first",
			s.state.Version, known))
	}
	return nil
}

func (s *Source) openSQLite(ctx context.Context, o *Options) error {
	path, err := sqlitePath(o.URL)
	if err != nil {
		return err
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return cmp.Or(checkNotMoving(path), err)
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no file", path)
	}
	return s.openFile(ctx, path)
}

// openFile begins to read an existing file.
func (s *Source) openFile(ctx context.Context, path string) (err error) {
	s.path = path
	// Not with mode=ro: without a server, the write-ahead log may have to be recovered first.
	err = s.beginFile(ctx, path, "")
	if cannotWriteBeside(err) {
		if s.still = stillFile(path); s.still != nil {
			_ = s.end() // of what could not be opened
			err = s.beginFile(ctx, path, asImmutable)
		}
	}
	return whyUnreadable(path, err)
}

func (s *Source) beginFile(ctx context.Context, path, parameters string) (err error) {
	file := url.URL{Scheme: "file", Path: path}
	name := fmt.Sprintf("%s?_busy_timeout=%d&_query_only=1&_pragma=cache_size(-4096)%s", file.String(), busyTimeout.Milliseconds(), parameters)
	if s.db, err = sql.Open("sqlite", name); err != nil {
		return err
	}
	s.db.SetMaxOpenConns(1)
	if s.tx, err = s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err == nil {
		_, err = s.tx.ExecContext(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1") // SQLite opens the file only now
	}
	return err
}

// cannotWriteBeside reports whether SQLite cannot read a file because it cannot open or create the files beside it.
func cannotWriteBeside(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CANTOPEN || e.Code()&0xff == sqlite3.SQLITE_READONLY)
}

// whyUnreadable adds the reason that SQLite's error lacks: the file may not be read, or it may be read but nothing can
// be written beside it, for example on a disk that is mounted read-only.
func whyUnreadable(path string, err error) error {
	if !cannotWriteBeside(err) {
		return err
	}
	if may := unix.Access(path, unix.R_OK); may != nil {
		return &fs.PathError{Op: "open", Path: path, Err: may}
	}
	if log, lerr := os.Stat(path + "-wal"); unix.Access(path, unix.W_OK) == nil && unix.Access(filepath.Dir(path), unix.W_OK) == nil && (lerr != nil || log.Mode().IsRegular()) {
		return err // there is another cause, such as a full disk
	}
	return fmt.Errorf("%w: SQLite reads %s only where it can write files beside it, or may read those of a server, or where no server runs and no write-ahead log is left: "+
		"copy it, and %[2]s-wal if there is one, to another directory while no server runs, and name the copy by --datastore", err, path)
}

func (s *Source) openPostgres(ctx context.Context, o *Options) error {
	config, err := commandConfig(ctx, o)
	if err != nil {
		return err
	}
	s.db = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(registerTypes))
	s.db.SetMaxOpenConns(1)
	if s.tx, err = s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}); err != nil {
		return err
	}
	if _, err = s.tx.ExecContext(ctx, unhurriedSQL); err != nil || o.Schema == "" {
		return err
	}
	_, err = s.tx.ExecContext(ctx, setSearchPath(o.Schema))
	return err
}

// unhurriedSQL removes the time limits of a transaction, as pg_dump does: a role's limits against hanging clients would
// end a transaction that reads everything and waits for a slow destination. Postgres before 17 does not have all of
// these.
const unhurriedSQL = `SELECT set_config(name, '0', true) FROM pg_settings
WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`

// readState fixes the state that the transaction sees.
func (s *Source) readState(ctx context.Context) error {
	find, counter := "SELECT count(*) FROM sqlite_schema WHERE type IN ('table', 'view') AND name IN ('meta', 'objects', 'schema_migrations')", selectCounterSQL
	s.state.Kind = "sqlite"
	if s.postgres {
		s.state.Kind = "postgres"
		find = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename IN ('meta', 'objects', 'schema_migrations')"
	}
	var tables int
	if err := s.tx.QueryRowContext(ctx, find).Scan(&tables); err != nil {
		return err
	}
	if tables != 3 {
		return ErrNoTables
	}
	if err := s.tx.QueryRowContext(ctx, "SELECT version FROM schema_migrations").Scan(&s.state.Version); err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	// Later tables may keep their counter elsewhere, or contain parts of a store that this program would not read.
	if known, err := migrations.Known(s.state.Kind); err != nil || s.state.Version > known+1 {
		return cmp.Or(err, error(&migrations.NewerError{Version: s.state.Version, Known: known}))
	}
	if s.postgres {
		counter = "SELECT " + counterSQL + " FROM meta m"
	}
	if err := s.tx.QueryRowContext(ctx, counter).Scan(&s.state.Revision); err != nil {
		return fmt.Errorf("read the counter: %w", err)
	}
	s.state.Beyond = s.state.Revision
	unfinished, err := hasTable(ctx, s.tx, s.postgres, "moving")
	if err == nil && unfinished {
		return ErrMoving
	}
	if err == nil {
		s.state.Moved, err = movedTo(ctx, s.tx, s.postgres)
	}
	if err != nil || s.postgres {
		return err
	}
	var mark int64
	err = s.tx.QueryRowContext(ctx, "SELECT user_version FROM pragma_user_version").Scan(&mark)
	s.state.Beyond = max(s.state.Beyond, markOf(mark, s.state.Revision))
	return err
}

// State describes the state that is read.
func (s *Source) State() SourceState { return s.state }

// HasHistory reports whether there is an object history, which Each leaves out: a store made of the rows begins a new
// one.
func (s *Source) HasHistory(ctx context.Context) (there bool, err error) {
	if there, err = hasTable(ctx, s.tx, s.postgres, "revisions"); err != nil || !there {
		return false, err
	}
	err = s.tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM revisions)").Scan(&there)
	return there, err
}

// sourceTable is a table whose rows make up a store: keys are the columns that identify and order its rows, and version
// is a numeric column that changes whenever a row does.
type sourceTable struct{ name, keys, version string }

// sourceTables are all source tables. The log is not one: a store made from a copy begins its own log.
var sourceTables = []sourceTable{{"objects", "resource, namespace, name", "revision"}}

// Each calls table for every source table and then row for each of its rows, in the order of their keys. The values of
// a row are nil, int64, string or []byte, and row may keep them.
func (s *Source) Each(ctx context.Context, table func(name string, columns []string) error, row func(values []any) error) error {
	for _, t := range sourceTables {
		if err := s.eachOf(ctx, t.name, "SELECT * FROM "+t.name+" ORDER BY "+t.keys, table, row); err != nil {
			return fmt.Errorf("read the table %s: %w", t.name, err)
		}
	}
	return nil
}

func (s *Source) eachOf(ctx context.Context, name, statement string, table func(string, []string) error, row func([]any) error, args ...any) error {
	rows, err := s.tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	if err := table(name, columns); err != nil {
		return err
	}
	for rows.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Close ends the transaction. It returns an error if what was read may not have been one state.
func (s *Source) Close() error { return errors.Join(s.stayed(), s.end()) }

func (s *Source) end() error {
	var errs []error
	if s.tx != nil {
		if err := s.tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
			errs = append(errs, err)
		}
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// quotedList returns names as quoted identifiers, separated by commas.
func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = pgx.Identifier{name}.Sanitize()
	}
	return strings.Join(quoted, ", ")
}
