package sqlstore

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// sqliteValuesSQL makes a statement for each column, which finds values that are not of its type: SQLite accepts them.
const sqliteValuesSQL = `SELECT format('SELECT ''row '' || rowid || '' of %s, in which %s is of the type '' || typeof("%s") FROM %s WHERE typeof("%s") NOT IN (''%s'', ''%s'') LIMIT 100',
  m.name, t.name, t.name, m.name, t.name, lower(t.type), CASE WHEN t."notnull" THEN lower(t.type) ELSE 'null' END)
FROM sqlite_schema m, pragma_table_info(m.name) t WHERE m.type = 'table' AND m.name IN ('meta', 'objects', 'current', 'changes', 'revisions', 'recording')`

// sqliteValues checks that all values are of the types of their columns.
func (v *verifier) sqliteValues(ctx context.Context) error {
	statements, err := v.texts(ctx, sqliteValuesSQL)
	for i := 0; err == nil && i < len(statements); i++ {
		var strange []string
		strange, err = v.texts(ctx, statements[i])
		for _, text := range strange {
			v.found("database", "put it right by hand; else "+doDisk, "has %s", text)
		}
	}
	return err
}

// advised adds a remedy to an error if SQLite cannot use a file.
func advised(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	if do := adviceOf(e.Code()); do != "" {
		return fmt.Errorf("%w: %s", err, do)
	}
	return err
}

// adviceOf is empty for codes whose error needs no advice, or for which there is none.
func adviceOf(code int) string {
	switch {
	case code&0xff == sqlite3.SQLITE_CORRUPT, code&0xff == sqlite3.SQLITE_NOTADB:
		return doDisk
	case code == sqlite3.SQLITE_IOERR_SHMMAP, code == sqlite3.SQLITE_IOERR_SHMOPEN, code == sqlite3.SQLITE_IOERR_SHMLOCK:
		return "the file system has no maps of files that several write (mmap), or no locks, as some over a network or in user space: " +
			"put the database on another, or have this one keep a cache of files"
	}
	return ""
}

// advisedOfRows adds a remedy to an error if the rows that SQLite returns are invalid.
func advisedOfRows(err error) error {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return advised(err)
	}
	return fmt.Errorf("%w: the database may be damaged: 'rowlock verify' says where, and what to do", err)
}
