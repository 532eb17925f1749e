package files

import (
	"fmt"
	"os"
)

// MakeTemporary makes a directory for files that are needed only while the process runs.
func MakeTemporary(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	return dir, noPlace(err)
}

// CreateTemporary makes a file that is needed only while the process runs.
func CreateTemporary(pattern string) (*os.File, error) {
	f, err := os.CreateTemp("", pattern)
	return f, noPlace(err)
}

// noPlace adds advice to an error: an image with nothing but the program in it has no /tmp.
func noPlace(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("there is no place for temporary files: %w: name a directory with enough room by the environment variable TMPDIR", err)
}
