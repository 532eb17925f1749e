package sqlstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// claimAt is the byte of a database file that claim locks: beyond all bytes that SQLite locks, and beyond the end of
// any file.
const claimAt = 1 << 62

// claim locks the file itself, which other processes may reach under another name: a hard link, or a mount of the file.
// The lock file beside one name, which may also be removed, does not exclude them. SQLite's locks belong to the
// process; this one belongs to an open file description, so they do not interfere. But SQLite's locks are lost when the
// process closes any handle of the file, so this handle stays open for as long as SQLite uses the file. If the file
// system has no such locks, the server starts without.
func claim(f *os.File) error {
	at := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: claimAt, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return errors.New("it is in use by another process, by another name (a hard link, or the file is mounted by itself), or the file of its lock was removed: " +
			"stop that first, or give this one another file")
	}
	return nil
}

// isClaimed reports whether a process has claimed a file.
func isClaimed(f *os.File) bool {
	at := unix.Flock_t{Type: unix.F_WRLCK, Whence: 0, Start: claimAt, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &at) == nil && at.Type != unix.F_UNLCK
}

// isElsewhere reports whether a file has other names, beside which there is no write-ahead log.
func isElsewhere(f *os.File) bool {
	var stat unix.Statx_t
	if unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_NLINK, &stat) != nil {
		return false
	}
	return stat.Nlink > 1 || stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// unclaim releases the lock. Closing the file is not enough: a process that is being started may have it open for a
// moment, too.
func unclaim(f *os.File) error {
	at := unix.Flock_t{Type: unix.F_UNLCK, Whence: 0, Start: claimAt, Len: 1}
	_ = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &at) // a file system without such locks has none to release
	return f.Close()
}
