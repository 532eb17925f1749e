package sqlstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// claimAt is the byte of a database file by which it is claimed: beyond all that SQLite locks, and all that a file can have.
const claimAt = 1 << 62

// claim claims the file itself, which is found under other names too: by a hard link, or where it is mounted by itself. The lock beside one name,
// whose file somebody may remove, does not keep those out who come by another. A lock of an open file description is none of SQLite's, which are
// of the process. But as all of these go when any handle of the file is closed, this one is kept open for as long as SQLite has the file. A file
// system that has no such locks is no reason not to serve.
func claim(f *os.File) error {
	at := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: claimAt, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errors.New("it is in use by another process, by another name (a hard link, or the file is mounted by itself), or the file of its lock was removed: " +
			"stop that first, or give this one another file")
	}
	return nil
}

// isElsewhere reports whether a file is found under further names, beside which there is no write-ahead log.
func isElsewhere(f *os.File) bool {
	var stat unix.Statx_t
	if unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_NLINK, &stat) != nil {
		return false
	}
	return stat.Nlink > 1 || stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// unclaim gives a claimed file up. To close it is not enough: a process that is being started may have it open, too, for a moment.
func unclaim(f *os.File) error {
	at := unix.Flock_t{Type: unix.F_UNLCK, Whence: 0, Start: claimAt, Len: 1}
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at) // a file system that has no such locks has none to give up
	return f.Close()
}
