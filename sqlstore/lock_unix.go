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

// fileLock keeps a second process off a database. It is a flock, which ends with the process, however that ends.
type fileLock struct{ file *os.File }

// lockRounds bounds how often the locked file may turn out not to be in place any more: on a file system that does not
// recognise a file again, the loop would not end. Each further round means that another process has given up a database
// meanwhile.
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

// lockOpened returns nil if the previous owner of the lock has removed the file meanwhile. It closes a file that it
// does not return as a lock.
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
	_ = errors.Join(f.Truncate(0), writePID(f)) // this only makes a message nicer; a full disk is reported elsewhere
	return l, nil
}

func writePID(f *os.File) error {
	_, err := fmt.Fprintln(io.NewOffsetWriter(f, 0), os.Getpid())
	return err
}

// isInPlace reports whether the locked file is the one that other processes find by its name. (A rowlock from before
// this check may hold another one, beside the owner of the file in place, if it was started just as an import or a
// restore was given up.)
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

// remove removes the file, for a database that was not created. A process that has opened it before finds, once it has
// the lock, that the file is not in place.
func (l *fileLock) remove() error { return errors.Join(os.Remove(l.file.Name()), l.release()) }

// release lets the next process in. The file stays, with the number of the last owner, because the database exists.
// Closing it is not enough: a process that is being started may have it open for a moment, too.
func (l *fileLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
