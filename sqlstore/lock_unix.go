//go:build unix

package sqlstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/rowlock/rowlock/resources/files"
)

// fileLock keeps a second process off a database. It is flock's, which ends with the process, however that ends.
type fileLock struct{ file *os.File }

// lockRounds is how often another file is found to be in place than the one that was locked, until that is an error: where it is always so, as on a file
// system that does not know a file again, nothing would end it. Each further round is a database that somebody else has given up meanwhile.
const lockRounds = 100

// lockFile takes the lock beside a database file. The lock is on a file of its own because SQLite's locks on the
// database are of the kind that a process loses when it closes any handle of the file.
func lockFile(database string) (*fileLock, error) { return lockOf(database, files.Open) }

func lockOf(database string, open func(path string) (*os.File, error)) (*fileLock, error) {
	for range lockRounds {
		f, err := open(database + ".lock")
		if err != nil {
			return nil, fmt.Errorf("lock the database: %w", err)
		}
		l, err := lockOpened(database, f)
		if l != nil || err != nil {
			return l, err
		}
	}
	return nil, fmt.Errorf("lock the database: %s.lock is another file whenever it is looked at", database)
}

// lockOpened is nil where whoever had the lock has removed its file meanwhile. It closes a file of which it makes no lock.
func lockOpened(database string, f *os.File) (*fileLock, error) {
	l := &fileLock{f}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		pid, _ := io.ReadAll(io.LimitReader(f, 20)) //nolint:errcheck // only makes the message nicer
		err = fmt.Errorf("the database %s is in use by another process (pid %s): "+
			"stop it first, or give this one another file", database, strings.TrimSpace(string(pid)))
		return nil, errors.Join(err, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	if in, err := l.isInPlace(); err != nil || !in {
		return nil, errors.Join(err, l.release())
	}
	_ = errors.Join(f.Truncate(0), writePID(f)) // it makes a message nicer; what a full disk keeps from being done says so itself
	return l, nil
}

func writePID(f *os.File) error {
	_, err := fmt.Fprintln(io.NewOffsetWriter(f, 0), os.Getpid())
	return err
}

// isInPlace reports whether the file that is locked is the one that others find by its name. (A rowlock of before this was looked at may hold one that is not,
// beside the owner of the one that is, if it was started just as an import or a restore was given up.)
func (l *fileLock) isInPlace() (bool, error) {
	have, err := l.file.Stat()
	if err != nil {
		return false, err
	}
	found, err := os.Stat(l.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(have, found), err
}

// remove takes the file away, for a database that was not made. Whoever has opened it before finds, once it has the lock, that it is not in place.
func (l *fileLock) remove() error { return errors.Join(os.Remove(l.file.Name()), l.release()) }

// release lets the next process in. The file stays, and with it who had the lock last: the database is there. To close it is not
// enough, for a process that is being started may have it open, too, for a moment.
func (l *fileLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
