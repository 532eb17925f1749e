package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asReader runs f as a user who may write nothing: root may write everything, so its thread takes another user for
// files meanwhile. The thread must not end: Postgres, which it may have started, would end with it.
func asReader(f func() error) (err error) {
	if os.Geteuid() != 0 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		return err
	}
	defer func() {
		_, back := unix.SetfsuidRetUid(0)
		err = errors.Join(err, back)
	}()
	return f()
}

// readOnly makes a directory and its files readable for everybody and writable for nobody but root.
func readOnly(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Chmod(filepath.Join(dir, e.Name()), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{dir: 0o555, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// writable is the opposite of readOnly for the owner.
func writable(t *testing.T, dir string) {
	t.Helper()
	for name, mode := range map[string]os.FileMode{"": 0o755, "rowlock.db": 0o644, "rowlock.db.lock": 0o644} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// A file of a server that has stopped can be read where nothing can be written, and so can that of a server that runs.
func TestSourceOfAFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rowlock.db")
	options := Options{URL: sqliteScheme + path, Logger: slog.New(slog.DiscardHandler)}
	open := func(o Options) (s *Source, err error) {
		err = asReader(func() error {
			s, err = OpenSource(context.Background(), o)
			return err
		})
		return s, err
	}
	read := func(want int) (*Source, error) {
		t.Helper()
		s, err := open(options)
		if err != nil {
			return nil, err
		}
		var got int
		if err := s.tx.QueryRowContext(t.Context(), "SELECT count(*) FROM objects").Scan(&got); err != nil || got != want {
			t.Errorf("it has %d objects, want %d: %v", got, want, err)
		}
		return s, nil
	}
	server := openStore(t, options)
	mustCommit(t, server, createMap(t, "a"))
	readOnly(t, dir)
	s, err := read(1)
	if err != nil {
		t.Fatalf("beside a server: %v", err)
	}
	if err := s.Close(); err != nil || s.still != nil {
		t.Errorf("beside a server: %v", err)
	}
	writable(t, dir)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	readOnly(t, dir)
	for range 2 {
		if s, err = read(1); err != nil {
			t.Fatalf("without a server: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("without a server: %v", err)
		}
	}
	if s, err = read(1); err != nil {
		t.Fatal(err)
	}
	writable(t, dir)
	server = openStore(t, options)
	mustCommit(t, server, createMap(t, "b"))
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, errNotStill) {
		t.Errorf("a server wrote meanwhile, and it is said: %v", err)
	}
	if err := os.WriteFile(path+"-wal", []byte("left by a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	readOnly(t, dir)
	if s, err := open(options); !cannotWriteBeside(err) {
		t.Errorf("beside a write-ahead log: %v, %v", s, err)
	}
	writable(t, dir)
}

// The file of a running server is not taken for one that no server uses because its write-ahead log is beside another
// name, or gone.
func TestSourceOfAFileInUse(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	options := Options{URL: sqliteScheme + filepath.Join(dir, "rowlock.db"), Logger: slog.New(slog.DiscardHandler)}
	server := openStore(t, options)
	defer server.Close()
	mustCommit(t, server, createMap(t, "a"))
	if err := os.Rename(filepath.Join(dir, "rowlock.db"), filepath.Join(other, "rowlock.db")); err != nil {
		t.Fatal(err)
	}
	readOnly(t, other)
	options.URL = sqliteScheme + filepath.Join(other, "rowlock.db")
	if err := asReader(func() error {
		s, err := OpenSource(context.Background(), options)
		if err == nil {
			return errors.Join(errors.New("it was read"), s.Close())
		}
		if !cannotWriteBeside(err) {
			return err
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(other, 0o755); err != nil {
		t.Fatal(err)
	}
}
