package etcd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite" // kine's database
	sqlite3 "modernc.org/sqlite/lib"
)

// kineSnapshot is a database of kine: its table has a row per write, whose id is the revision.
type kineSnapshot struct {
	db       *sql.DB
	tx       *sql.Tx
	revision int64
}

const selectKineSQL = `SELECT k.name, k.id, coalesce(k.lease, 0), k.value FROM kine k
JOIN (SELECT max(id) AS id FROM kine WHERE name >= $1 AND name < $2 GROUP BY name) l ON l.id = k.id
WHERE k.deleted = 0 ORDER BY k.name`

func openKine(ctx context.Context, path string) (_ *kineSnapshot, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := "?_busy_timeout=10000&_query_only=1"
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
		query += "&mode=ro" // a connection that may write would move the log into the file, and remove it, at the end
	}
	file := url.URL{Scheme: "file", Path: path}
	s := &kineSnapshot{}
	if s.db, err = sql.Open("sqlite", file.String()+query); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1)
	if s.tx, err = s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	if err := s.tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM kine").Scan(&s.revision); err != nil {
		return nil, errors.Join(unreadKine(err), s.Close())
	}
	return s, nil
}

// unreadKine explains why a database cannot be read.
func unreadKine(err error) error {
	code := 0
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		code = e.Code() & 0xff
	}
	switch code {
	case sqlite3.SQLITE_ERROR: // the table does not exist
		return fmt.Errorf("%w: %w", ErrUnknownFile, err)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return fmt.Errorf("SQLite has to make a file beside it (-shm): copy it, and what of -wal there is, to a directory where one can be made: %w", err)
	}
	return err
}

func (s *kineSnapshot) Revision() int64 { return s.revision }

func (s *kineSnapshot) Each(ctx context.Context, prefix string, visit func(Entry) error) error {
	rows, err := s.tx.QueryContext(ctx, selectKineSQL, prefix, after(prefix))
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	for rows.Next() {
		var e Entry
		var seconds int64
		if err := rows.Scan(&e.Key, &e.Revision, &seconds, &e.Value); err != nil {
			return err
		}
		e.TTL = time.Duration(seconds) * time.Second
		if err := visit(e); err != nil {
			return err
		}
	}
	return rows.Err()
}

// after returns a string after all strings that begin with an ASCII prefix.
func after(prefix string) string {
	if prefix == "" {
		return "\U0010ffff"
	}
	return prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
}

func (s *kineSnapshot) Close() error { return errors.Join(s.tx.Rollback(), s.db.Close()) }
