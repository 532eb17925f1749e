package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

// Clients get the certificate of the name that they send: an exact name takes precedence over a wildcard, and given names over those in
// certificates. It is read again when it changes.
func TestNamedCertificates(t *testing.T) {
	c := newClock()
	said, own, wild := newGiven(t, c), newGiven(t, c), newGiven(t, c)
	pair := func(g *given, names ...string) NamedPair {
		return NamedPair{Names: names, CertFile: g.base() + ".crt", KeyFile: g.base() + ".key"}
	}
	o := testOptions(t.TempDir(), c)
	o.SNI = []NamedPair{pair(wild, "*.Example.com"), pair(own), pair(said, "said.example.com")}
	p := mustOpen(t, o)
	for name, want := range map[string]*given{"said.example.com": said, "SAID.example.com.": said, "other.example.com": wild, "given.example.com": own,
		"a.b.example.com": nil, "example.com": nil, loopbackName: nil, "": nil} {
		shown, err := p.getCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil && shown != p.serving.Load() || want != nil && !shown.Leaf.Equal(want.pair.cert) {
			t.Errorf("%q is shown %v", name, shown.Leaf.Subject)
		}
	}
	said.issue(t)
	c.advance(2 * reloadInterval)
	if shown, err := p.getCertificate(&tls.ClientHelloInfo{ServerName: "said.example.com"}); err != nil || !shown.Leaf.Equal(said.pair.cert) {
		t.Errorf("replaced files were not read: %v", err)
	}
	o.SNI = []NamedPair{{CertFile: "nowhere", KeyFile: "nowhere"}}
	if _, err := Open(o); err == nil {
		t.Error("a certificate that is not there is taken")
	}
}

// A certificate that was given for other names is used for a client that sends a name in it; the server's own certificate takes precedence.
func TestFittingCertificates(t *testing.T) {
	c := newClock()
	g := newGiven(t, c)
	o := testOptions(t.TempDir(), c)
	o.SNI = []NamedPair{{Names: []string{"said.example.com"}, CertFile: g.base() + ".crt", KeyFile: g.base() + ".key"}}
	p := mustOpen(t, o)
	for name, named := range map[string]bool{"given.example.com": true, "said.example.com": true, "localhost": false, "unknown.example.com": false, "": false} {
		shown, err := p.getCertificate(&tls.ClientHelloInfo{ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13},
			SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}})
		if err != nil {
			t.Fatal(err)
		}
		if named != shown.Leaf.Equal(g.pair.cert) || !named && shown != p.serving.Load() {
			t.Errorf("%q is shown %v", name, shown.Leaf.DNSNames)
		}
	}
}

// A client that connects to an IP address sends no name. It gets the certificate that was given for the address, whatever certificates come
// before it.
func TestNamedAddresses(t *testing.T) {
	c := newClock()
	before, here := newGiven(t, c), newGiven(t, c)
	pair := func(g *given, names ...string) NamedPair {
		return NamedPair{Names: names, CertFile: g.base() + ".crt", KeyFile: g.base() + ".key"}
	}
	o := testOptions(t.TempDir(), c)
	shown := func(pairs ...NamedPair) *x509.Certificate {
		t.Helper()
		o.SNI = pairs
		l, err := tls.Listen("tcp", "127.0.0.1:0", mustOpen(t, o).TLSConfig())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_ = conn.(*tls.Conn).Handshake() // the client reports its failure
		}()
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	if got := shown(pair(before), pair(here, "127.0.0.1")); !got.Equal(here.pair.cert) {
		t.Errorf("a client of the address is shown %v", got.Subject)
	}
	if got := shown(pair(before), pair(here, "127.0.0.2")); got.Equal(here.pair.cert) || got.Equal(before.pair.cert) {
		t.Errorf("a client of another address is shown %v", got.Subject)
	}
}

// Clients may choose from the configured TLS parameters.
func TestTLSOptions(t *testing.T) {
	c := newClock()
	o := testOptions(t.TempDir(), c)
	connect := func(client *tls.Config) (tls.ConnectionState, error) {
		t.Helper()
		p := mustOpen(t, o)
		l, err := net.Listen("tcp", "127.0.0.1:0") // both sides may write at once, which a net.Pipe does not allow
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			serverEnd, err := l.Accept()
			if err != nil {
				return
			}
			defer serverEnd.Close()
			_ = tls.Server(serverEnd, p.TLSConfig()).Handshake() // the client reports its failure
		}()
		clientEnd, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer clientEnd.Close()
		client.RootCAs, client.ServerName, client.Time = roots(p), "localhost", c.Now
		conn := tls.Client(clientEnd, client)
		err = conn.Handshake()
		return conn.ConnectionState(), err
	}
	older := func() *tls.Config { return &tls.Config{MaxVersion: tls.VersionTLS12} }
	if _, err := connect(older()); err != nil {
		t.Errorf("TLS 1.2 by default: %v", err)
	}
	const suite = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
	o.TLS.CipherSuites = []uint16{suite}
	if state, err := connect(older()); err != nil || state.CipherSuite != suite {
		t.Errorf("the suite is %s: %v", tls.CipherSuiteName(state.CipherSuite), err)
	}
	o.TLS.CurvePreferences = []tls.CurveID{tls.CurveP384}
	if state, err := connect(&tls.Config{}); err != nil || state.CurveID != tls.CurveP384 {
		t.Errorf("the curve is %v: %v", state.CurveID, err)
	}
	if _, err := connect(&tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}); err == nil {
		t.Error("another curve is taken")
	}
	o.TLS.MinVersion = tls.VersionTLS13
	if _, err := connect(older()); err == nil {
		t.Error("TLS 1.2 is taken where 1.3 is the least")
	}
}
