package pki

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// contents returns the files of a data directory that clients, signers and servers use.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"pki/ca.crt", "pki/ca.key", "pki/front-proxy-ca.crt", "pki/front-proxy-ca.key", "pki/apiserver.crt", "admin.kubeconfig"} {
		all[name] = string(read(t, filepath.Join(dir, name)))
	}
	return all
}

// A replaced authority stays in use, in memory and in the files, which the signer of CertificateSigningRequests reads, until each server starts
// again.
func TestReplacedAuthorityWaitsForStart(t *testing.T) {
	for name, shared := range map[string]*resources.Rows{"alone": nil, "shared": resources.NewRows(sqlitetest.Open(t))} {
		t.Run(name, func(t *testing.T) {
			c, dirs := newClock(), []string{t.TempDir()}
			if shared != nil {
				dirs = append(dirs, t.TempDir())
			}
			start := func(dir string) *PKI {
				o := testOptions(dir, c)
				o.Shared = shared
				p := mustOpen(t, o)
				if err := p.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
					t.Fatal(err)
				}
				return p
			}
			running, before := map[string]*PKI{}, map[string]map[string]string{}
			for _, dir := range dirs {
				running[dir] = start(dir)
				before[dir] = contents(t, dir)
			}
			known := roots(running[dirs[0]])
			for _, a := range Authorities() {
				if _, err := ReplaceAuthority(t.Context(), dirs[0], a, shared, c.now); err != nil {
					t.Fatal(err)
				}
			}
			c.advance(2 * day)
			for dir, p := range running {
				proxy := p.ProxyAuthorities()[0]
				if _, err := handshake(t, p, c, known, "localhost"); err != nil {
					t.Errorf("before a restart: %v", err)
				}
				if !p.ProxyAuthorities()[0].Equal(proxy) {
					t.Error("before a restart, there is another authority of the front proxy")
				}
				for file, now := range contents(t, dir) {
					if now != before[dir][file] {
						t.Errorf("before a restart, %s has changed", file)
					}
				}
			}
			for _, dir := range dirs {
				p := start(dir)
				if _, err := handshake(t, p, c, known, "localhost"); err == nil {
					t.Error("after a restart, the old authority is in use")
				}
				if got := contents(t, dir); got["pki/ca.key"] == before[dir]["pki/ca.key"] || got["pki/front-proxy-ca.key"] == before[dir]["pki/front-proxy-ca.key"] {
					t.Error("after a restart, there are the old keys")
				}
				if left, err := filepath.Glob(filepath.Join(dir, "pki", "*.next.*")); err != nil || len(left) > 0 {
					t.Errorf("after a restart, there are %v, %v", left, err)
				}
			}
		})
	}
}

// The certificate that is saved is that of the authority in use, also where an earlier replacement has not taken its place yet; and where it cannot be
// saved, nothing is replaced.
func TestReplacedAuthorityIsSaved(t *testing.T) {
	for name, shared := range map[string]*resources.Rows{"alone": nil, "shared": resources.NewRows(sqlitetest.Open(t))} {
		t.Run(name, func(t *testing.T) {
			c, dir, other := newClock(), t.TempDir(), t.TempDir()
			start := func(dir string) {
				o := testOptions(dir, c)
				o.Shared = shared
				mustOpen(t, o)
			}
			start(dir)
			file := func(dir, name string) []byte { return read(t, filepath.Join(dir, "pki", name)) }
			used, previous := file(dir, "ca.crt"), filepath.Join(dir, "pki", "ca.previous.crt")
			if err := os.Mkdir(previous, 0o700); err != nil {
				t.Fatal(err)
			}
			if _, err := ReplaceAuthority(t.Context(), dir, "ca", shared, c.now); err == nil {
				t.Error("an authority is replaced whose certificate cannot be saved")
			}
			if start(dir); !bytes.Equal(file(dir, "ca.crt"), used) {
				t.Error("it is not in use any more")
			}
			if err := os.Remove(previous); err != nil {
				t.Fatal(err)
			}
			saved := func(want ...[]byte) {
				t.Helper()
				if _, err := ReplaceAuthority(t.Context(), dir, "ca", shared, c.now); err != nil {
					t.Fatal(err)
				}
				for _, one := range want {
					if !bytes.Contains(file(dir, "ca.previous.crt"), one) {
						t.Error("a certificate of an authority in use is not saved")
					}
				}
			}
			saved(used)
			if shared == nil {
				saved(used)
				return
			}
			start(other) // with the authority that waits for the first server's start
			saved(used, file(other, "ca.crt"))
		})
	}
}

// A start that was interrupted while it put the new authority in its place is completed by the next one.
func TestReplacedAuthorityHalfWritten(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	mustOpen(t, testOptions(dir, c))
	if _, err := ReplaceAuthority(t.Context(), dir, "ca", nil, c.now); err != nil {
		t.Fatal(err)
	}
	next := read(t, filepath.Join(dir, "pki", "ca.next.pem"))
	key := next[:bytes.Index(next, []byte("-----BEGIN CERTIFICATE"))]
	if err := os.WriteFile(filepath.Join(dir, "pki", "ca.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	p := mustOpen(t, testOptions(dir, c))
	if _, err := handshake(t, p, c, roots(p), "localhost"); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "pki", "ca.key")), key) {
		t.Error("the new key is not in use")
	}
}

// Files of an authority that are exchanged or removed under a running server are read at its next start: its clients would be locked out.
func TestAuthorityFilesThatChangeMeanwhile(t *testing.T) {
	other, c := t.TempDir(), newClock()
	mustOpen(t, testOptions(other, c))
	for _, change := range []func(dir, file string) error{
		func(dir, file string) error { return os.Remove(filepath.Join(dir, file)) },
		func(dir, file string) error {
			return os.WriteFile(filepath.Join(dir, file), read(t, filepath.Join(other, file)), 0o600)
		},
	} {
		dir := t.TempDir()
		p := mustOpen(t, testOptions(dir, c))
		known, pool := roots(p), p.ClientCAs()
		for _, file := range []string{"pki/ca.crt", "pki/ca.key", "pki/front-proxy-ca.crt", "pki/front-proxy-ca.key"} {
			if err := change(dir, file); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(400 * day) // the serving certificate has ended meanwhile
		if _, err := handshake(t, p, c, known, "localhost"); err != nil {
			t.Error(err)
		}
		if p.ClientCAs() != pool {
			t.Error("the authorities of clients have changed")
		}
	}
}
