package pki

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// asNobody runs a function that may read the files of others only if all may. Root may read all files otherwise.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setfsuid(0) }()
	do()
}

// A file that could not be read because of its mode is read when the mode was corrected, which leaves its size and times as they are.
func TestReloadOfCorrectedMode(t *testing.T) {
	c := newClock()
	g := newGiven(t, c)
	if err := os.Chmod(filepath.Dir(g.dir), 0o755); err != nil { // of the test's own directory
		t.Fatal(err)
	}
	if err := os.Chmod(g.base()+".key", 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := newReloading(reloadOptions{c.Now, testOptions("", c).Logger}, parseKeyPair, g.base()+".crt", g.base()+".key")
	if err != nil {
		t.Fatal(err)
	}
	g.issue(t)
	for _, mode := range []os.FileMode{0, 0o644} {
		if err := os.Chmod(g.base()+".key", mode); err != nil {
			t.Fatal(err)
		}
		asNobody(t, r.check) // get calls it on another thread
		if now := r.get().value.Leaf; now.Equal(g.pair.cert) != (mode != 0) {
			t.Errorf("with mode %v, the new certificate is used: %t", mode, now.Equal(g.pair.cert))
		}
	}
}

// A file that cannot be read at the moment, as on a network file system that hangs, keeps nobody waiting for what it said before. It is read when
// that is possible again.
func TestReloadThatHangs(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := newReloading(reloadOptions{c.Now, testOptions("", c).Logger}, func(contents [][]byte) (string, error) { return string(contents[0]), nil }, path)
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
		r.patience = patience // only the first one waits
		c.advance(2 * reloadInterval)
		if now := r.get().value; now != "before" {
			t.Errorf("it says %q", now)
		}
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString("after"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock() // the check has ended
	defer r.mu.Unlock()
	if now := r.current.Load().value; now != "after" {
		t.Errorf("it says %q", now)
	}
}
