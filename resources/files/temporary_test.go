package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An image with nothing but the program in it has no /tmp, and the error advises what to do.
func TestNoTemporary(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	_, err := MakeTemporary("x-*")
	_, ferr := CreateTemporary("x-*")
	for _, err := range []error{err, ferr} {
		if err == nil || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("%v does not say what to do", err)
		}
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := MakeTemporary("x-*")
	if err != nil {
		t.Fatal(err)
	}
	f, err := CreateTemporary("x-*")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{dir, f.Name()} {
		if filepath.Dir(path) != os.Getenv("TMPDIR") {
			t.Errorf("%s is elsewhere", path)
		}
	}
}
