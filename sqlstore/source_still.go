package sqlstore

import (
	"errors"
	"io/fs"
	"os"
)

// SQLite reads a file in WAL mode only where it can create files beside it, or where those of a server are. A file that
// no server uses and that is complete in itself can also be read where nothing can be written: as another user, or on
// a disk that is mounted read-only. SQLite is then told that the file does not change (immutable), and locks nothing.

// asImmutable is the parameter for such a file.
const asImmutable = "&immutable=1"

// errNotStill says that a file changed although it was taken for one that no server uses.
var errNotStill = errors.New("a server began to use the file while it was read without a lock, since nothing can be written beside it: repeat this")

// stillFile returns the state of a file that no server uses and that has no write-ahead log; nil: it may be in use, or
// have a log beside another of its names. The log is looked for first: a process that uses the file by SQLite would
// lose its locks if it closed another handle of it.
func stillFile(path string) fs.FileInfo {
	if _, err := os.Lstat(path + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil || isElsewhere(f) || isClaimed(f) {
		return nil
	}
	return info
}

// stayed returns an error if a file that was read as immutable has changed.
func (s *Source) stayed() error {
	if s.still == nil {
		return nil
	}
	now := stillFile(s.path)
	if now == nil || !os.SameFile(now, s.still) || now.Size() != s.still.Size() || !now.ModTime().Equal(s.still.ModTime()) {
		return errNotStill
	}
	return nil
}
