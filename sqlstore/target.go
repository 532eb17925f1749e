package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rowlock/rowlock/resources/files"
)

// Target is an empty database that is filled with rows of another one, and becomes a store by Finish. Rows that are not
// committed leave nothing that a server would take for a store with content: a SQLite file gets its name at the end,
// and in Postgres everything is one transaction. It belongs to one goroutine.
type Target struct {
	options Options
	filler  filler
}

// filler is the part of a Target that differs between databases.
type filler interface {
	// fill inserts the rows that next returns, until that returns io.EOF.
	fill(ctx context.Context, table string, columns []string, next func() ([]any, error)) error
	// commit makes the counter begin at a revision, and makes everything durable.
	commit(ctx context.Context, revision int64) error
	now(ctx context.Context) (time.Time, error)
	close() error
}

// ErrNotEmpty says that there is something in the place of a new store.
var ErrNotEmpty = errors.New("there is a store already")

// OpenTarget makes the tables of a store in an empty database, or in one where that was begun and not finished.
// Options.URL and Options.Schema name it. Errors: ErrNotEmpty; ErrMoving; an error if another process has the file;
// those of the database.
func OpenTarget(ctx context.Context, o Options) (*Target, error) {
	if err := errors.Join(CheckURL(o.URL), CheckSchema(o.URL, o.Schema)); err != nil {
		return nil, err
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	open := openSQLiteTarget
	if isPostgres(o.URL) {
		open = openPostgresTarget
	}
	f, err := open(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("fill the database: %w", err)
	}
	return &Target{o, f}, nil
}

// CheckTarget checks that OpenTarget would find an empty database, or a directory for a new one, and leaves nothing
// there. Errors: as of OpenTarget.
func CheckTarget(ctx context.Context, o Options) error {
	if !isPostgres(o.URL) {
		path, err := sqliteTargetPath(o.URL)
		if err != nil {
			return err
		}
		if err := errors.Join(checkNoFile(path), checkNotMoving(path)); err != nil {
			return err
		}
		return files.CheckDir(filepath.Dir(path))
	}
	source, err := OpenSource(ctx, o)
	if errors.Is(err, ErrNoTables) {
		return mayMakeTables(ctx, &o)
	}
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // it was only read
	return postgresEmpty(ctx, source.tx)
}

func checkNoFile(path string) error {
	for _, suffix := range []string{"", "-wal", "-journal"} {
		switch _, err := os.Lstat(path + suffix); {
		case err == nil:
			return fmt.Errorf("%w: %s", ErrNotEmpty, path+suffix)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// Table inserts the rows of a table, in batches, until next returns io.EOF. Unknown columns belong to a later version:
// they are an error.
func (t *Target) Table(ctx context.Context, name string, columns []string, next func() ([]any, error)) error {
	known := false
	for _, s := range sourceTables {
		known = known || s.name == name
	}
	if !known {
		return fmt.Errorf("the table %q is not known to this rowlock: use a newer one", name)
	}
	if err := t.filler.fill(ctx, name, columns, next); err != nil {
		return fmt.Errorf("fill the table %s: %w", name, err)
	}
	return nil
}

// Finish makes a store of the inserted rows. Its counter continues after the revision beyond and, since an unknown
// number of revisions may have been assigned after that, at the present time (jumpTo). The store has no history, so
// earlier watches have to start anew. announce is called with the counter before the commit; its error ends Finish. It
// returns the counter. A revision beyond RevisionMax is an error.
func (t *Target) Finish(ctx context.Context, beyond int64, announce func(revision int64) error) (revision int64, err error) {
	if beyond > RevisionMax {
		return 0, fmt.Errorf("the revision %d, above which no store can go on", beyond)
	}
	now, err := t.filler.now(ctx)
	if err != nil {
		return 0, err
	}
	revision = jumpTo(beyond, now, t.options.Clock.Now())
	if err := announce(revision); err != nil {
		return 0, err
	}
	if err := t.filler.commit(ctx, revision); err != nil {
		return 0, fmt.Errorf("fill the database: %w", err)
	}
	return revision, nil
}

// Close discards rows that were not committed.
func (t *Target) Close() error { return t.filler.close() }
