package pki

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A client gets the accepted authorities at each handshake.
func TestClientIsToldOfAuthorities(t *testing.T) {
	c := newClock()
	first, second := newGiven(t, c), newGiven(t, c)
	o := testOptions(t.TempDir(), c)
	o.ClientCAFile = filepath.Join(t.TempDir(), "ca.crt")
	write := func(data []byte) {
		t.Helper()
		if err := writeFile(o.ClientCAFile, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(first.ca.certPEM())
	p := mustOpen(t, o)
	check := func(others ...*given) {
		t.Helper()
		want := [][]byte{p.ca.Load().cert.RawSubject}
		for _, other := range others {
			want = append(want, other.ca.cert.RawSubject)
		}
		if diff := cmp.Diff(want, askedFor(t, p, c)); diff != "" {
			t.Errorf("authorities (-want +got):\n%s", diff)
		}
	}
	check(first)
	write(append(first.ca.certPEM(), second.ca.certPEM()...))
	c.advance(2 * reloadInterval)
	check(first, second)
}

// askedFor returns the names of the authorities from which the server requests a client certificate.
func askedFor(t *testing.T, p *PKI, c *clock) [][]byte {
	t.Helper()
	serverEnd, clientEnd := net.Pipe()
	defer clientEnd.Close()
	go func() {
		defer serverEnd.Close()
		_ = tls.Server(serverEnd, p.TLSConfig()).Handshake() // the client reports its failure
	}()
	var names [][]byte
	client := tls.Client(clientEnd, &tls.Config{RootCAs: roots(p), ServerName: "localhost", Time: c.Now,
		GetClientCertificate: func(q *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			names = q.AcceptableCAs
			return &tls.Certificate{}, nil
		}})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return names
}
