package sqlstore

import (
	"path/filepath"
	"testing"
)

// After a store is closed, its file alone is complete: a copy of it, as before an upgrade, has everything.
func TestClosedIsOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rowlock.db")
	s, err := Open(t.Context(), Options{URL: "sqlite://" + path})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, createMap(t, "a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + "-*"); err != nil || len(left) > 0 {
		t.Errorf("beside the file there are %v, %v", left, err)
	}
}
