package authn

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A file that could not be read because of its mode is read when the mode was corrected, which leaves its size and times as they are.
func TestTokenFileOfCorrectedMode(t *testing.T) {
	path, clock := tokenFile(t, "secret,alice,uid-1\n"), time.Now()
	if err := os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755); err != nil { // of the test's own directory
		t.Fatal(err)
	}
	f, err := newFileTokens(path, func() time.Time { return clock }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another,carl,uid-3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // which may read all files otherwise
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = syscall.Setfsuid(0) }()
	}
	for _, mode := range []os.FileMode{0, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := syscall.Setfsuid(65534); err != nil {
				t.Fatal(err)
			}
		}
		f.check() // AuthenticateToken calls it on another thread
		if _, known, _ := f.AuthenticateToken(t.Context(), "another"); known != (mode != 0) {
			t.Errorf("with mode %v, the token is known: %t", mode, known)
		}
		if os.Geteuid() == 0 {
			_ = syscall.Setfsuid(0)
		}
	}
}

// A file that cannot be read at the moment, as on a network file system that hangs, keeps no request waiting for long. It is read when that is
// possible again.
func TestTokenFileThatHangs(t *testing.T) {
	path, clock := tokenFile(t, "secret,alice,uid-1\n"), time.Now()
	f, err := newFileTokens(path, func() time.Time { return clock }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil { // reading it waits for a writer
		t.Fatal(err)
	}
	for _, patience := range []time.Duration{time.Millisecond, time.Hour} {
		f.patience = patience // only the first request waits
		clock = clock.Add(2 * tokenFileInterval)
		if _, known, err := f.AuthenticateToken(t.Context(), "secret"); !known {
			t.Errorf("the token that was in the file is refused: %v", err)
		}
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("another,carl,uid-3\n"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock() // the check has ended
	defer f.mu.Unlock()
	for token, want := range map[string]bool{"secret": false, "another": true} {
		if _, known, _ := f.current.Load().AuthenticateToken(t.Context(), token); known != want {
			t.Errorf("%s is known: %t", token, known)
		}
	}
}
