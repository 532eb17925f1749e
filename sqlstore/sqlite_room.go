package sqlstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// errNoRoom says that the files of the database cannot grow.
var errNoRoom = errors.New("no room")

// probeBytes is how much has to fit beside the database for a failed write to count as an I/O error.
const probeBytes = 1 << 20

// explain adds errNoRoom and the system's reason to the error of a statement, if it could not write because a quota or a
// limit for the size of files was reached. For SQLite only a full disk lacks room; the others are errors of writing,
// whose reasons the driver does not tell. So explain writes to a file of its own, where those of the database end.
func (d *sqliteDriver) explain(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) || e.Code() != sqlite3.SQLITE_IOERR_WRITE {
		return err
	}
	wal := d.trimmer.path
	var end int64
	for _, name := range []string{wal, strings.TrimSuffix(wal, "-wal")} {
		if info, err := os.Stat(name); err == nil {
			end = max(end, info.Size())
		}
	}
	reason := probe(wal+"-probe", end)
	for _, lack := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(reason, lack) {
			return fmt.Errorf("%w (%w): %w", errNoRoom, lack, err)
		}
	}
	return err
}

// probe writes probeBytes to a new file, after a hole of the given size, and removes the file.
func probe(name string, hole int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, probeBytes), hole)
	return errors.Join(err, f.Close(), os.Remove(name))
}
