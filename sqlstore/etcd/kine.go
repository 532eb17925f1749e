package etcd

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite" // kine's database
	sqlite3 "modernc.org/sqlite/lib"
)

// kineSnapshot is a database of kine: its table has a row per write, whose id is the revision. The file may come from
// anybody.
type kineSnapshot struct {
	db       *sql.DB
	tx       *sql.Tx
	revision int64
}

const (
	// valueMost bounds the bytes of a value, which is in memory: as many as an etcd server may send.
	valueMost = mostPageBytes
	// sortedMost bounds those of a value with its key and numbers, which SQLite sorts.
	sortedMost = valueMost + 1<<20
)

// errLongValue says that a value has more than valueMost bytes. No kube-apiserver stores such a value.
var errLongValue = errors.New("it has a value of more than 16 MiB, which is no object")

const selectKineSQL = `SELECT k.name, k.id, coalesce(k.lease, 0), k.value FROM kine k
JOIN (SELECT max(id) AS id FROM kine WHERE name >= $1 AND name < $2 GROUP BY name) l ON l.id = k.id
WHERE k.deleted = 0 ORDER BY k.name`

// isStoredSQL tells whether there is a table kine, neither a view nor a virtual table, without generated columns.
const isStoredSQL = `SELECT EXISTS (SELECT 1 FROM pragma_table_list('kine') WHERE schema = 'main' AND type = 'table')
AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo('kine') WHERE hidden <> 0)`

func openKine(ctx context.Context, path string) (_ *kineSnapshot, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := "?_busy_timeout=10000&_query_only=1&_pragma=trusted_schema(0)&_pragma=ignore_check_constraints(1)"
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
		query += "&mode=ro" // a connection that may write would move the log into the file, and remove it, at the end
	}
	file := url.URL{Scheme: "file", Path: path}
	s := &kineSnapshot{}
	if s.db, err = sql.Open("sqlite", file.String()+query); err != nil {
		return nil, err
	}
	s.db.SetMaxOpenConns(1)
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(unreadKine(err), s.Close())
	}
	return s, nil
}

// begin begins a transaction with the state of the database, and checks that its rows are stored and not computed.
func (s *kineSnapshot) begin(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	_, err = sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, sortedMost)
	if err = errors.Join(err, conn.Close()); err != nil { // it stays open, as the one connection
		return err
	}
	if s.tx, err = s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}); err != nil {
		return err
	}
	var stored bool
	if err := s.tx.QueryRowContext(ctx, isStoredSQL).Scan(&stored); err != nil {
		return err
	}
	if !stored {
		return fmt.Errorf("%w: it has no table kine of stored rows", ErrUnknownFile)
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.tx.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM kine").Scan(&s.revision)
}

// onlyIndexSQL tells whether a text of quick_check is about indexes alone. It names a tree by the page of its root.
const onlyIndexSQL = `SELECT $1 LIKE 'wrong # of entries in index %' OR coalesce(min(type = 'index'), 0)
FROM sqlite_schema WHERE rootpage > 0 AND instr($1, 'Tree ' || rootpage || ' ') > 0`

// check refuses a table whose pages, or those of its indexes, are damaged.
func (s *kineSnapshot) check(ctx context.Context) error {
	var found string
	if err := s.tx.QueryRowContext(ctx, "PRAGMA quick_check(kine)").Scan(&found); err != nil {
		return err
	}
	if found == "ok" {
		return nil
	}
	err := fmt.Errorf("%w: %s", errDamaged, found)
	var index bool
	if failed := s.tx.QueryRowContext(ctx, onlyIndexSQL, found).Scan(&index); failed == nil && index {
		// REINDEX would fail where pages of the index are wrong: it follows them to free them.
		return fmt.Errorf("%w. That is in an index, without which the rows can be copied: run sqlite3 FILE .dump | sqlite3 COPY, and import the copy", err)
	}
	return err
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
	case sqlite3.SQLITE_TOOBIG:
		return errLongValue
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY:
		return fmt.Errorf("SQLite has to make a file beside it (-shm): copy it, and what of -wal there is, to a directory where one can be made: %w", err)
	}
	return err
}

func (s *kineSnapshot) Revision() int64 { return s.revision }

func (s *kineSnapshot) Each(ctx context.Context, prefix string, visit func(Entry) error) error {
	rows, err := s.tx.QueryContext(ctx, selectKineSQL, prefix, after(prefix))
	if err != nil {
		return unreadKine(err)
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	for rows.Next() {
		var e Entry
		var seconds int64
		if err := rows.Scan(&e.Key, &e.Revision, &seconds, &e.Value); err != nil {
			return err
		}
		if len(e.Value) > valueMost {
			return errLongValue
		}
		if seconds > 0 {
			e.TTL = lifetime(seconds)
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	return unreadKine(rows.Err())
}

// after returns a string after all strings that begin with an ASCII prefix.
func after(prefix string) string {
	if prefix == "" {
		return "\U0010ffff"
	}
	return prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
}

func (s *kineSnapshot) Close() (err error) {
	if s.tx != nil {
		err = s.tx.Rollback()
	}
	return errors.Join(err, s.db.Close())
}
