package pki

import (
	"os"
	"path/filepath"
	"testing"
)

// given is a certificate and key of an authority that is not the server's, as a user may provide them.
type given struct {
	dir  string
	ca   *keyPair
	c    *clock
	pair *keyPair
}

func newGiven(t *testing.T, c *clock) *given {
	t.Helper()
	ca, err := issueCA(c.Now(), "other-ca", nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &given{dir: t.TempDir(), ca: ca, c: c}
	g.issue(t)
	return g
}

func (g *given) base() string { return filepath.Join(g.dir, "given") }

func (g *given) issue(t *testing.T) {
	t.Helper()
	var err error
	if g.pair, err = issueServing(g.ca, g.c.Now(), newNames([]string{"given.example.com"})); err != nil {
		t.Fatal(err)
	}
	if err := g.pair.write(g.base()); err != nil {
		t.Fatal(err)
	}
}

func TestGivenCertificate(t *testing.T) {
	c := newClock()
	g := newGiven(t, c)
	o := testOptions(t.TempDir(), c)
	o.CertFile, o.KeyFile = g.base()+".crt", g.base()+".key"
	p := mustOpen(t, o)
	theirs := roots(p)
	theirs.AddCert(g.ca.cert)
	shown := func() *keyPair {
		t.Helper()
		cert, err := handshake(t, p, c, theirs, "given.example.com")
		if err != nil {
			t.Fatal(err)
		}
		return &keyPair{cert: cert}
	}

	if !shown().cert.Equal(g.pair.cert) {
		t.Error("the given certificate is not shown")
	}
	if cert, err := handshake(t, p, c, roots(p), loopbackName); err != nil || cert.Equal(g.pair.cert) {
		t.Errorf("the own kubeconfig cannot connect: %v", err)
	}

	g.issue(t)
	c.advance(2 * reloadInterval)
	if !shown().cert.Equal(g.pair.cert) {
		t.Error("replaced files were not read")
	}

	last := g.pair.cert
	if err := os.WriteFile(o.CertFile, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * reloadInterval)
	if !shown().cert.Equal(last) {
		t.Error("an unreadable file took the certificate away")
	}
	if err := os.Remove(o.CertFile); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * reloadInterval)
	if !shown().cert.Equal(last) {
		t.Error("a removed file took the certificate away")
	}
	g.issue(t)
	c.advance(2 * reloadInterval)
	if !shown().cert.Equal(g.pair.cert) {
		t.Error("files were not read after they were good again")
	}
}

func TestGivenFilesMustBeGoodAtStart(t *testing.T) {
	c := newClock()
	g, other := newGiven(t, c), newGiven(t, c)
	for name, change := range map[string]func(*Options){
		"no certificate": func(o *Options) { o.CertFile, o.KeyFile = "/nonexistent/a.crt", g.base()+".key" },
		"no key":         func(o *Options) { o.CertFile, o.KeyFile = g.base()+".crt", "/nonexistent/a.key" },
		"foreign key":    func(o *Options) { o.CertFile, o.KeyFile = g.base()+".crt", other.base()+".key" },
		"no client CA":   func(o *Options) { o.ClientCAFile = "/nonexistent/ca.crt" },
		"not a CA file":  func(o *Options) { o.ClientCAFile = g.base() + ".key" },
	} {
		o := testOptions(t.TempDir(), c)
		change(&o)
		if _, err := Open(o); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestClientCAFileReload(t *testing.T) {
	c := newClock()
	first, second := newGiven(t, c), newGiven(t, c)
	o := testOptions(t.TempDir(), c)
	o.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt")
	if err := writeFile(o.ClientCAFile, first.ca.certPEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	p := mustOpen(t, o)
	before, changed := p.ClientCAs(), p.Changed()
	want := roots(p)
	want.AddCert(first.ca.cert)
	if !before.Equal(want) {
		t.Error("the pool is not that of the own authority and the file's")
	}

	if err := writeFile(o.ClientCAFile, second.ca.certPEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	c.advance(2 * reloadInterval)
	select {
	case <-changed:
		t.Error("a change was told that nobody has looked for")
	default:
	}
	want = roots(p)
	want.AddCert(second.ca.cert)
	if after := p.ClientCAs(); after == before || !after.Equal(want) {
		t.Error("the pool did not follow the file")
	}
	select {
	case <-changed:
	default:
		t.Error("the change was not told")
	}
	if all := p.Certificates(); len(all) != 2 || !all[0].Equal(p.ca.Load().cert) || !all[1].Equal(second.ca.cert) {
		t.Errorf("%d certificates, or not those of the pool", len(all))
	}
}
