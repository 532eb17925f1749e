//go:build linux

package sqlstore

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A file belongs to one store under all its names: stores that opened it by a hard link, or by a mount of the file,
// once overwrote each other.
func TestFileOfTwoNames(t *testing.T) {
	const other, address = "ROWLOCK_TEST_OTHER_NAME", "sqlite://"
	if path := os.Getenv(other); path != "" { // another process: SQLite's locks are of a process
		s, err := Open(t.Context(), Options{URL: address + path})
		if err == nil {
			_ = s.Close()
			t.Fatal("it is opened by another name, too")
		}
		t.Fatal(err)
	}
	path, link := filepath.Join(t.TempDir(), "rowlock.db"), filepath.Join(t.TempDir(), "rowlock.db")
	var log bytes.Buffer
	options := Options{URL: address + path, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, link); err != nil {
		t.Fatal(err)
	}
	second := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileOfTwoNames$")
	second.Env = append(os.Environ(), other+"="+link)
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "in use by another process, by another name") {
		t.Errorf("%v: %s", err, out)
	}
	if err := os.Remove(path + ".lock"); err != nil {
		t.Fatal(err)
	}
	third := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileOfTwoNames$")
	third.Env = append(os.Environ(), other+"="+path)
	if out, err := third.CombinedOutput(); err == nil || !strings.Contains(string(out), "the file of its lock was removed") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := s.Commit(t.Context(), createMap(t, "a")); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); text != "" {
		t.Errorf("of a file with one name the log has %q", text)
	}
	if s, err = Open(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if text := log.String(); strings.Count(text, "has other names") != 1 {
		t.Errorf("of a file with two names the log has %q", text)
	}
}
