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
	path := database + ".lock"
	f, err := files.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		pid, _ := io.ReadAll(io.LimitReader(f, 20)) //nolint:errcheck // only makes the message nicer
		return nil, errors.Join(fmt.Errorf("the database %s is in use by another process (pid %s): "+
			"stop it first, or give this one another file", database, strings.TrimSpace(string(pid))), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	if err := errors.Join(f.Truncate(0), writePID(f)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &fileLock{f}, nil
}

func writePID(f *os.File) error {
	_, err := fmt.Fprintln(io.NewOffsetWriter(f, 0), os.Getpid())
	return err
}

// release lets the next process in. The file stays: taking it away would race with a process that has just opened it. To close it is not
// enough, for a process that is being started may have it open, too, for a moment.
func (l *fileLock) release() error {
	return errors.Join(syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN), l.file.Close())
}
