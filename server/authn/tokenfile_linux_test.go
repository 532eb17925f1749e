package authn

import (
	"crypto/x509"
	"net/http/httptest"
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
	who, err := New(Options{ClientCAs: x509.NewCertPool, TokenFile: path, Now: func() time.Time { return clock }})
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
		clock = clock.Add(tokenFileInterval)
		r := httptest.NewRequest("GET", "https://server/api", nil)
		r.Header.Set("Authorization", "Bearer another")
		if _, known, _ := who.User(r); known != (mode != 0) {
			t.Errorf("with mode %v, the token is known: %t", mode, known)
		}
		if os.Geteuid() == 0 {
			_ = syscall.Setfsuid(0)
		}
	}
}
