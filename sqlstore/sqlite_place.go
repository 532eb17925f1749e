package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// place is where the database's file was found when it was opened. A process goes on with a file that was moved, removed or replaced under it, and nothing
// that it does fails; but what it writes then is found by nobody once it has ended. So nothing is written.
type place struct {
	path string
	file fs.FileInfo
}

func newPlace(path string) (place, error) {
	info, err := os.Stat(path)
	return place{path, info}, err
}

// holds is nil while the file is found there still. It costs one call of the system, for each batch that is committed.
func (p place) holds() error {
	switch found, err := os.Stat(p.path); {
	case err == nil && os.SameFile(p.file, found):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return fmt.Errorf("%s is not the file any more that this server reads and writes: it was moved, removed or replaced under it. "+
		"Move it back, with those beside it; if it is gone, read from this server what is to be kept before it ends", p.path)
}
