package sqlstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If a database cannot be read in its place, the error has a remedy instead of "unable to open database file (14)".
func TestSourceThatCannotBeWrittenBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	options := Options{URL: sqliteScheme + path}
	s, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+"-wal", 0o700); err != nil { // it is in the way, also for root
		t.Fatal(err)
	}
	if _, err := OpenSource(t.Context(), options); err == nil || !strings.Contains(err.Error(), "copy it, and "+path+"-wal if there is one") {
		t.Error(err)
	}
	if _, err := OpenSource(t.Context(), Options{URL: sqliteScheme + path + "-wal"}); err == nil || !strings.HasSuffix(err.Error(), "-wal is no file") {
		t.Error(err)
	}
	if os.Geteuid() == 0 {
		return // root may read everything
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSource(t.Context(), options); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}
