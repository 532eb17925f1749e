package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// place is where the database's files were when it was opened. A process can go on using a file that was moved, removed
// or replaced, and nothing fails; but once it has ended, no other process finds what it has written. So it stops
// writing.
type place struct {
	path string
	// found describes the file itself, and the files beside it that SQLite keeps while the database is open: the
	// write-ahead log, and the index of that log, by which processes agree on its content.
	found map[string]fs.FileInfo
}

// placed are the suffixes of these files' names.
var placed = []string{"", "-wal", "-shm"}

func newPlace(path string) (place, error) {
	p := place{path, map[string]fs.FileInfo{}}
	for _, suffix := range placed {
		info, err := os.Stat(path + suffix)
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue // the system has no such file
		}
		if err != nil {
			return p, err
		}
		p.found[suffix] = info
	}
	return p, nil
}

// holds returns nil while the files are still in their place. It costs three system calls for each committed batch.
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

// lacks reports that the log or its index is gone while the database is in its place, and that no process has created
// another one: all processes that have the database open then have the same log and the same locks.
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
