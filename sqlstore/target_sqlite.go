package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rowlock/rowlock/migrations"
	"github.com/rowlock/rowlock/resources/files"
)

// unfinished is the suffix of a file that is being filled. No other suffix is longer (sqliteTargetPath).
const unfinished = ".unfinished"

// sqliteTarget fills a file beside the one that it will become.
type sqliteTarget struct {
	path string
	lock *fileLock
	db   *sql.DB
	tx   *sql.Tx
}

func openSQLiteTarget(ctx context.Context, o *Options) (_ filler, err error) {
	t := &sqliteTarget{}
	if t.path, err = sqliteTargetPath(o.URL); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if err := files.MakeDir(filepath.Dir(t.path)); err != nil {
		return nil, err
	}
	if t.lock, err = lockFile(t.path); err != nil {
		return nil, err
	}
	if err := errors.Join(checkNoFile(t.path), checkNotMoving(t.path)); err != nil {
		return nil, err
	}
	if err := t.discard(); err != nil { // of an interrupted attempt
		return nil, err
	}
	if err := makePrivate(t.path + unfinished); err != nil {
		return nil, err
	}
	// The file counts only once it is complete, so it is written as fast as possible and flushed at the end.
	// auto_vacuum is as in sqliteName.
	name := strings.Replace(sqliteName(t.path+unfinished, "off"), "_journal_mode=wal", "_journal_mode=off", 1)
	if t.db, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	t.db.SetMaxOpenConns(1)
	if err := migrations.SQLite(ctx, t.db); err != nil {
		return nil, err
	}
	t.tx, err = t.db.BeginTx(ctx, nil)
	return t, err
}

// discard removes the unfinished file.
func (t *sqliteTarget) discard() error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(t.path + unfinished + suffix); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *sqliteTarget) fill(ctx context.Context, table string, columns []string, next func() ([]any, error)) error {
	if table == objectsView {
		table = objectsTable
	}
	places := make([]string, len(columns))
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	statement, err := t.tx.PrepareContext(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, quotedList(columns), strings.Join(places, ", ")))
	if err != nil {
		return err
	}
	defer statement.Close() //nolint:errcheck // the transaction reports the error
	for {
		row, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := statement.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
}

func (t *sqliteTarget) now(context.Context) (time.Time, error) { return time.Time{}, nil }

func (t *sqliteTarget) commit(ctx context.Context, revision int64) error {
	_, err := t.tx.ExecContext(ctx, "UPDATE meta SET revision = $1, floor = $1, inline = $1, history_bytes = 0", revision)
	if err == nil {
		err = t.tx.Commit()
	}
	if err == nil {
		err = t.db.Close()
		t.db = nil
	}
	if err == nil {
		err = files.Sync(t.path + unfinished)
	}
	if err == nil {
		err = os.Rename(t.path+unfinished, t.path)
	}
	if err == nil {
		err = files.Sync(filepath.Dir(t.path))
	}
	return err
}

func (t *sqliteTarget) close() error {
	var errs []error
	if t.db != nil {
		if t.tx != nil {
			_ = t.tx.Rollback() // the file is removed
		}
		errs = append(errs, t.db.Close())
	}
	if t.lock != nil {
		release := t.lock.remove
		if checkNoFile(t.path) != nil {
			release = t.lock.release
		}
		errs = append(errs, t.discard(), release())
	}
	return errors.Join(errs...)
}
