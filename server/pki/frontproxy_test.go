package pki

import (
	"crypto/x509"
	"testing"
)

// The client certificate for extension API servers is signed by an authority of its own, which signs no other client's
// certificate. It stays the same across starts, and is renewed in time.
func TestProxyCertificate(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	check := func() *x509.Certificate {
		t.Helper()
		own := x509.NewCertPool()
		for _, a := range p.ProxyAuthorities() {
			own.AddCert(a)
		}
		leaf := p.ProxyCertificate().Leaf
		use := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: own, CurrentTime: c.Now(), KeyUsages: use}); err != nil || leaf.Subject.CommonName != ProxyName {
			t.Errorf("%s: %v", leaf.Subject, err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: p.ClientCAs(), CurrentTime: c.Now(), KeyUsages: use}); err == nil {
			t.Error("who signs certificates of clients has signed it")
		}
		return leaf
	}
	first := check()
	if p = mustOpen(t, testOptions(dir, c)); !check().Equal(first) {
		t.Error("another one after a restart")
	}
	c.advance(300 * day)
	if renewed := check(); renewed.Equal(first) || !p.proxyCA.Load().cert.Equal(p.ProxyAuthorities()[0]) {
		t.Error("it was not renewed")
	}
	changed, authority := p.Changed(), p.ProxyAuthorities()[0]
	c.advance(8 * 365 * day)
	check()
	_ = p.ClientCAs()
	select {
	case <-changed:
	default:
		t.Error("nothing tells of the new authority")
	}
	if p.ProxyAuthorities()[0].Equal(authority) {
		t.Error("the authority was not renewed")
	}
}
