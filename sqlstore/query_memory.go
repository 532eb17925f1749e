package sqlstore

import (
	"errors"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// queryMemory is how much memory SQLite may use for a person's query, in bytes: to sort and group, and for the pages
// that it reads.
const queryMemory = 256 << 20

// ErrQueryTooLarge says that a query takes more memory than it may have.
var ErrQueryTooLarge = errors.New("the query takes more than 256 MiB of memory: select less, or sort and gather less at once")

// BoundQueries makes SQLite count its memory in this process, so that it gets at most 256 MiB. It is for a process that
// answers one query and does nothing else: the bound is for all of SQLite in the process. It returns false, and nothing
// is bounded, if SQLite was in use before.
func BoundQueries() bool {
	tls := libc.NewTLS()
	defer tls.Close()
	on := libc.NewVaList(int32(1))
	defer libc.Xfree(tls, on)
	// SQLite is built without counting (SQLITE_DEFAULT_MEMSTATUS=0), and memory that is not counted is not bounded.
	if sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_MEMSTATUS, on) != sqlite3.SQLITE_OK {
		return false
	}
	sqlite3.Xsqlite3_hard_heap_limit64(tls, queryMemory)
	return true
}

// tooLarge reports whether SQLite ran out of the memory that it may use.
func tooLarge(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOMEM
}
