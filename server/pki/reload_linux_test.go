package pki

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
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
		c.advance(2 * reloadInterval)
		asNobody(t, func() {
			if now := r.get().value.Leaf; now.Equal(g.pair.cert) != (mode != 0) {
				t.Errorf("with mode %v, the new certificate is used: %t", mode, now.Equal(g.pair.cert))
			}
		})
	}
}
