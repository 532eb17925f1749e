package files

import (
	"fmt"
	"os"
)

// MakeTemporary makes a directory for what is needed only while the process works.
func MakeTemporary(pattern string) (string, error) {
	dir, err := os.MkdirTemp("", pattern)
	return dir, noPlace(err)
}

// CreateTemporary makes a file for what is needed only while the process works.
func CreateTemporary(pattern string) (*os.File, error) {
	f, err := os.CreateTemp("", pattern)
	return f, noPlace(err)
}

// noPlace says what is to be done about an error: an image with nothing in it but the program has no /tmp.
func noPlace(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("there is no place for temporary files: %w: name a directory with enough room by the environment variable TMPDIR", err)
}
