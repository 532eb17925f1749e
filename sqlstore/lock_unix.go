//go:build unix

package sqlstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/rowlock/rowlock/resources/files"
)

// fileLock keeps a second process off a database. It is flock's, which ends with the process, however that ends.
type fileLock struct{ file *os.File }

// lockFile takes the lock beside a database file. The lock is on a file of its own because SQLite's locks on the
// database are of the kind that a process loses when it closes any handle of the file.
func lockFile(database string) (*fileLock, error) {
	for {
		f, err := files.Open(database + ".lock")
		if err != nil {
			return nil, fmt.Errorf("lock the database: %w", err)
		}
		l := &fileLock{f}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil && l.isInPlace():
			_ = errors.Join(f.Truncate(0), writePID(f)) // it makes a message nicer; what a full disk keeps from being done says so itself
			return l, nil
		case err == nil: // whoever had the lock has removed its file meanwhile
			if err := l.release(); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			pid, _ := io.ReadAll(io.LimitReader(f, 20)) //nolint:errcheck // only makes the message nicer
			err = fmt.Errorf("the database %s is in use by another process (pid %s): "+
				"stop it first, or give this one another file", database, strings.TrimSpace(string(pid)))
		default:
			err = fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil, errors.Join(err, f.Close())
	}
}

func writePID(f *os.File) error {
	_, err := fmt.Fprintln(io.NewOffsetWriter(f, 0), os.Getpid())
	return err
}

// isInPlace reports whether the file that is locked is the one that others find by its name.
func (l *fileLock) isInPlace() bool {
	have, err := l.file.Stat()
	if err != nil {
		return false
	}
	found, err := os.Stat(l.file.Name())
	return err == nil && os.SameFile(have, found)
}

// remove takes the file away, for a database that was not made. Whoever has opened it before finds, once it has the lock, that it is not in place.
func (l *fileLock) remove() error { return errors.Join(os.Remove(l.file.Name()), l.release()) }

// release lets the next process in. The file stays, and with it who had the lock last: the database is there. To close it is not
// enough, for a process that is being started may have it open, too, for a moment.
func (l *fileLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
