package sqlstore

import (
	"errors"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// queryMemory is how much memory SQLite has for a query of a person, in bytes: for what it sorts and gathers, and for the pages that it reads.
const queryMemory = 256 << 20

// ErrQueryTooLarge says that a query takes more memory than it may have.
var ErrQueryTooLarge = errors.New("the query takes more than 256 MiB of memory: select less, or sort and gather less at once")

// BoundQueries has SQLite count in this process what it takes, so that no query is given more than 256 MiB. It is for a process that answers a
// query and does nothing else: the bound is for all that SQLite does in it. It returns false, and nothing is bounded, when SQLite was in use
// before.
func BoundQueries() bool {
	tls := libc.NewTLS()
	defer tls.Close()
	on := libc.NewVaList(int32(1))
	defer libc.Xfree(tls, on)
	// It is built without counting (SQLITE_DEFAULT_MEMSTATUS=0), and what is not counted is not bounded.
	if sqlite3.Xsqlite3_config(tls, sqlite3.SQLITE_CONFIG_MEMSTATUS, on) != sqlite3.SQLITE_OK {
		return false
	}
	sqlite3.Xsqlite3_hard_heap_limit64(tls, queryMemory)
	return true
}

// tooLarge tells whether SQLite says that there is no more memory for it.
func tooLarge(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_NOMEM
}
