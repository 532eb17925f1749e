package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// place is where the database's files were found when it was opened. A process goes on with a file that was moved, removed or replaced under it, and nothing
// that it does fails; but what it writes then is found by nobody once it has ended. So nothing is written.
type place struct {
	path string
	// found are the file itself, and those beside it that SQLite keeps as long as anybody has it open: the log, and the index of that, by which
	// processes agree on what is in it.
	found map[string]fs.FileInfo
}

// placed is how the names of these files end.
var placed = []string{"", "-wal", "-shm"}

func newPlace(path string) (place, error) {
	p := place{path, map[string]fs.FileInfo{}}
	for _, suffix := range placed {
		info, err := os.Stat(path + suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue // the system has no such
		}
		if err != nil {
			return p, err
		}
		p.found[suffix] = info
	}
	return p, nil
}

// holds is nil while the files are found there still. It costs three calls of the system, for each batch that is committed.
func (p place) holds() error {
	for _, suffix := range placed {
		before := p.found[suffix]
		if before == nil {
			continue
		}
		switch found, err := os.Stat(p.path + suffix); {
		case err == nil && os.SameFile(before, found):
			continue
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		do := "if it is gone, read from this server what is to be kept before it ends"
		if _, err := os.Stat(p.path); err == nil && suffix != "" {
			do = "if it is gone, stop this server by SIGTERM, upon which it writes what is in the log into the database, and start it again"
		}
		return fmt.Errorf("%s%s is not the file any more that this server reads and writes: it was moved, removed or replaced under it. "+
			"Move it back, with those beside it; %s", p.path, suffix, do)
	}
	return nil
}

// lacks says that the log or its index is gone while the database is in its place, and that nobody has made another: those who have the database open have the
// same log then, and the same locks.
func (p place) lacks() (gone bool) {
	for _, suffix := range placed {
		if before := p.found[suffix]; before != nil {
			found, err := os.Stat(p.path + suffix)
			switch {
			case suffix != "" && errors.Is(err, fs.ErrNotExist):
				gone = true
			case err != nil || !os.SameFile(before, found):
				return false
			}
		}
	}
	return gone
}
