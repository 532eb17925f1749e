package sqlstore

import (
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// Writes to a file that was removed under the server would be lost when the server ends: it refuses them, logs that,
// and is not ready.
func TestFileTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "rowlock.db")
	var log said
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
	refused := func() {
		t.Helper()
		if _, err := s.Commit(t.Context(), createMap(t, "a")); !errors.Is(err, resources.ErrUnavailable) || !strings.Contains(err.Error(), gone) {
			t.Errorf("a write: %v", err)
		}
	}
	refused()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ready(gone)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ready(gone)
	refused()
	if text := log.String(); strings.Count(text, "writes are refused") != 1 || strings.Contains(text, "could not be truncated") {
		t.Errorf("the log has %q", text)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	ready("")
	mustCommit(t, s, createMap(t, "a"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// said is a log that can be read while it is written.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(line)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Writes to a write-ahead log that was removed are refused as well, though the database is in its place. A server that
// is stopped in good order moves that log into the database.
func TestLogTakenAway(t *testing.T) {
	for _, suffix := range []string{"-wal", "-shm"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "rowlock.db")
		options := Options{URL: "sqlite://" + path, Logger: slog.New(slog.DiscardHandler)}
		s, err := Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Commit(t.Context(), createMap(t, "a")); err != nil {
			t.Fatal(err)
		}
		// As with Litestream: while another process has the database open, SQLite does not move the log into it when
		// the server closes it.
		reader, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.ExecContext(t.Context(), "SELECT 1 FROM meta"); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path + suffix); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), path+suffix+" is not the file any more") {
			t.Errorf("%s is gone, and it is ready: %v", suffix, err)
		}
		if _, err := s.Commit(t.Context(), createMap(t, "b")); !errors.Is(err, resources.ErrUnavailable) || !strings.Contains(err.Error(), "by SIGTERM") {
			t.Errorf("%s is gone: %v", suffix, err)
		}
		if err := errors.Join(s.Close(), os.Rename(path, filepath.Join(dir, "alone.db")), reader.Close()); err != nil {
			t.Fatal(err)
		}
		options.URL = "sqlite://" + filepath.Join(dir, "alone.db")
		if s, err = Open(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), createMap(t, "a").Key, resources.At{}); err != nil {
			t.Errorf("what was written before %s was gone: %v", suffix, err)
		}
		if _, err := s.Commit(t.Context(), createMap(t, "b")); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
