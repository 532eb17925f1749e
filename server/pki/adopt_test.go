package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/keyutil"
)

// authorityFiles writes an authority with an RSA key.
func authorityFiles(t *testing.T, c *clock, base string) *keyPair {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := issueCA(c.now, filepath.Base(base), &keyPair{key: key})
	if err != nil {
		t.Fatal(err)
	}
	if err := ca.write(base); err != nil {
		t.Fatal(err)
	}
	return ca
}

// k3s's keys are adopted: the authority of its servers, which is renewed with the same key, and its token keys, of which the first one signs.
func TestAdoptedFromK3s(t *testing.T) {
	c, dir, data := newClock(), t.TempDir(), filepath.Join(t.TempDir(), "data")
	ca := authorityFiles(t, c, filepath.Join(dir, "server-ca"))
	authorityFiles(t, c, filepath.Join(dir, "request-header-ca"))
	clients := authorityFiles(t, c, filepath.Join(dir, "client-ca"))
	signs, verifies := newKeyPEM(t), newKeyPEM(t)
	for name, text := range map[string][]byte{"service.current.key": signs, "service.key": append(slices.Clone(verifies), signs...)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := ReadPKI(dir, c.now)
	if err != nil || len(a.Missing) > 0 || len(a.Adopted) != 4 {
		t.Fatalf("%+v, %v", a, err)
	}
	for range 2 {
		if err := a.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	o := testOptions(data, c)
	o.ClientCAFile = filepath.Join(data, "pki", "client-ca.crt")
	p := mustOpen(t, o)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	if _, err := handshake(t, p, c, roots, "localhost"); err != nil {
		t.Error(err)
	}
	made, err := issue(clients, c.now, &x509.Certificate{Subject: pkix.Name{CommonName: "system:admin"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.cert.Verify(x509.VerifyOptions{Roots: p.ClientCAs(), CurrentTime: c.now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	keys := mustTokenKeys(t, p, TokenKeyOptions{})
	list, err := NewKeyRing(data, nil).List(t.Context())
	if err != nil || len(list) != 2 || !list[0].Private {
		t.Fatalf("%+v, %v", list, err)
	}
	private, err := keyutil.ParsePrivateKeyPEM(signs)
	if err != nil || list[0].ID != keyID(publicOf(private)) {
		t.Errorf("%s signs: %v", list[0].ID, err)
	}
	if !accepts(t, keys, signed(t, keys)) {
		t.Error("its own token is not good")
	}
	// Seven years later the authority is renewed; clients that know the old one accept certificates of the new one.
	c.advance(7 * 365 * day)
	later := mustOpen(t, o)
	if _, err := handshake(t, later, c, roots, "localhost"); err != nil || later.ca.Load().cert.Equal(ca.cert) {
		t.Errorf("after the renewal: %v", err)
	}
}

// A server that believes clients by an adopted authority, which no flag names, says so once.
func TestAdoptedClientAuthorityIsLogged(t *testing.T) {
	c, data := newClock(), t.TempDir()
	file := filepath.Join(data, "pki", clientCAName)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, testOptions(data, c))
	clients := authorityFiles(t, c, filepath.Join(t.TempDir(), "client-ca"))
	lines := func(o Options) int {
		t.Helper()
		log := &bytes.Buffer{}
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
		if _, err := Provisional(o); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, o)
		return strings.Count(log.String(), "file="+file)
	}
	o := testOptions(data, c)
	if n := lines(o); n != 0 {
		t.Errorf("without the file, it is in %d lines", n)
	}
	if err := os.WriteFile(file, clients.certPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := lines(o); n != 1 {
		t.Errorf("the file is in %d lines of the log", n)
	}
	o.ClientCAFile = file
	if n := lines(o); n != 0 {
		t.Errorf("the file that was named is in %d lines", n)
	}
}

// Files that cannot be adopted are reported, with the reason.
func TestNotAdopted(t *testing.T) {
	c := newClock()
	for want, spoil := range map[string]func(dir string, ca *keyPair){
		"ca.key is not there": func(dir string, _ *keyPair) { _ = os.Remove(filepath.Join(dir, "ca.key")) },
		"ca.key is not the key of ca.crt": func(dir string, _ *keyPair) {
			_ = os.WriteFile(filepath.Join(dir, "ca.key"), newKeyPEM(t), 0o600)
		},
		"ca.crt is no authority's": func(dir string, ca *keyPair) {
			leaf, err := issueServing(ca, c.now, newNames([]string{"a"}))
			if err != nil {
				t.Fatal(err)
			}
			_ = leaf.write(filepath.Join(dir, "ca"))
		},
		"ca.crt is signed by another authority": func(dir string, ca *keyPair) {
			key, err := newKey()
			if err != nil {
				t.Fatal(err)
			}
			below, err := sign(&x509.Certificate{Subject: pkix.Name{CommonName: "below"}, NotBefore: c.now, NotAfter: c.now.Add(day), IsCA: true,
				BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, key, ca)
			if err != nil {
				t.Fatal(err)
			}
			_ = below.write(filepath.Join(dir, "ca"))
		},
		"ca.crt ended on": func(dir string, _ *keyPair) {
			early := *c
			early.advance(-11 * 365 * day)
			authorityFiles(t, &early, filepath.Join(dir, "ca"))
		},
		"ca.key: ":            func(dir string, _ *keyPair) { _ = os.WriteFile(filepath.Join(dir, "ca.key"), []byte("x"), 0o600) },
		"sa.key is not there": func(string, *keyPair) {},
	} {
		dir, data := t.TempDir(), t.TempDir()
		spoil(dir, authorityFiles(t, c, filepath.Join(dir, "ca")))
		a, err := ReadPKI(dir, c.now)
		if err != nil || !strings.Contains(strings.Join(a.Missing, "\n"), want) {
			t.Errorf("%q is not in %+v, %v", want, a, err)
			continue
		}
		if written, err := a.Check(data); written || err != nil {
			t.Errorf("%q: %t, %v", want, written, err)
		}
	}
}
