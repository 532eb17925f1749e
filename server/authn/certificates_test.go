package authn

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/rowlock/rowlock/server/pki"
)

func request(leaf *x509.Certificate) *http.Request {
	r := httptest.NewRequest("GET", "https://server/api", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
	return r
}

func TestVerifiedOncePerConnection(t *testing.T) {
	f := newFixture(t, pki.Options{})
	leaf := f.adminCertificate(t).Leaf
	c := newCertificates(f.pki.ClientCAs, time.Now, newCounts())
	r := request(leaf)
	first, ok, err := c.AuthenticateRequest(r)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	again, _, _ := c.AuthenticateRequest(r.Clone(t.Context()))
	if first != again {
		t.Error("a second request of a connection was verified again")
	}
	other, _, _ := c.AuthenticateRequest(request(leaf))
	if first == other {
		t.Error("another connection was not verified")
	}
}

func TestForgetsClosedConnections(t *testing.T) {
	f := newFixture(t, pki.Options{})
	leaf := f.adminCertificate(t).Leaf
	c := newCertificates(f.pki.ClientCAs, time.Now, newCounts())
	for range 100 {
		if _, ok, err := c.AuthenticateRequest(request(leaf)); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	for {
		runtime.GC() // cleanups run some time after a collection; the test's own timeout is the limit
		n := 0
		c.known.Range(func(any, any) bool { n++; return true })
		if n == 0 {
			return
		}
		runtime.Gosched()
	}
}

func BenchmarkKnownConnection(b *testing.B) {
	f := newFixture(b, pki.Options{})
	who, err := New(Options{ClientCAs: f.pki.ClientCAs})
	if err != nil {
		b.Fatal(err)
	}
	r := request(f.adminCertificate(b).Leaf)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := who.User(r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// TestRefusedOncePerConnection sends a certificate of an unknown authority, whose verification may be made costly, again and again.
func TestRefusedOncePerConnection(t *testing.T) {
	f, other := newFixture(t, pki.Options{}), newFixture(t, pki.Options{})
	now := time.Now()
	c := newCertificates(f.pki.ClientCAs, func() time.Time { return now }, newCounts())
	r := request(other.adminCertificate(t).Leaf)
	_, _, first := c.AuthenticateRequest(r)
	_, _, again := c.AuthenticateRequest(r)
	if first == nil || first != again { //nolint:errorlint // the same error, which no second verification returns
		t.Errorf("a second request of a connection was verified again: %v, %v", first, again)
	}
	now = now.Add(refusedFor)
	if _, _, later := c.AuthenticateRequest(r); later == nil || later == first { //nolint:errorlint // as above
		t.Errorf("a certificate that was refused is not verified again: %v", later)
	}
}
