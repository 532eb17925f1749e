package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

// Before a server has its certificates, it uses those of its data directory, and others if these are not valid. It replaces one that
// was issued with a wrong clock, and writes nothing.
func TestProvisional(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	known := roots(mustOpen(t, testOptions(dir, c)))
	files := func() string {
		t.Helper()
		return string(read(t, filepath.Join(dir, "pki", "apiserver.crt"))) + string(read(t, filepath.Join(dir, "pki", "ca.crt")))
	}
	before := files()
	c.advance(-8 * 365 * day) // as a machine without a hardware clock starts
	p := mustBeProvisional(t, testOptions(dir, c))
	shown := mustShow(t, p)
	if again := mustShow(t, p); !again.Equal(shown) {
		t.Error("the next handshake is shown another certificate")
	}
	if c.now.After(shown.NotAfter) || c.now.Before(shown.NotBefore) {
		t.Errorf("at %v: a certificate from %v to %v", c.now, shown.NotBefore, shown.NotAfter)
	}
	c.advance(8 * 365 * day)
	if shown, err := handshake(t, p, c, known, "localhost"); err != nil {
		t.Errorf("the clock is right: %v", err)
	} else if before != files() || string((&keyPair{cert: shown}).certPEM()) != string(read(t, filepath.Join(dir, "pki", "apiserver.crt"))) {
		t.Error("not the certificate of the data directory")
	}

	empty := t.TempDir()
	mustShow(t, mustBeProvisional(t, testOptions(empty, c)))
	if left, err := os.ReadDir(empty); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}

func mustBeProvisional(t *testing.T, o Options) *PKI {
	t.Helper()
	p, err := Provisional(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustShow returns the certificate of a handshake.
func mustShow(t *testing.T, p *PKI) *x509.Certificate {
	t.Helper()
	shown, err := p.TLSConfig().GetCertificate(&tls.ClientHelloInfo{ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	return shown.Leaf
}
