package sqlstore

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is written to a file that was taken away under the server is lost when that ends: it says so, and is not ready.
func TestFileTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rowlock.db")
	var log strings.Builder
	s, err := Open(t.Context(), Options{URL: "sqlite://" + path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ready := func(want string) {
		t.Helper()
		err := s.Ready(t.Context())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("ready: %v; want %q", err, want)
		}
	}
	const gone = "was moved, removed or replaced"
	ready("")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	ready(gone)
	mustCommit(t, s, createMap(t, "a"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ready(gone)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ready(gone)
	if said := log.String(); strings.Count(said, "may be lost") != 1 {
		t.Errorf("the log has %q", said)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	ready("")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), gone) {
		t.Errorf("the log has %q", log.String())
	}
}
