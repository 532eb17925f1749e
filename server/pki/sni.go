package pki

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// NamedPair is a certificate for clients that send one of its names, or that send none and connect to one of its addresses.
type NamedPair struct {
	// Names are DNS names, possibly with a wildcard as the first label, and IP addresses of this server. None: the DNS names in the certificate.
	Names []string
	// CertFile and KeyFile are read again when they change.
	CertFile, KeyFile string
}

// TLSOptions are the TLS parameters that clients may choose from; empty: the defaults of crypto/tls, from version 1.2.
type TLSOptions struct {
	MinVersion       uint16
	CipherSuites     []uint16 // of TLS 1.2
	CurvePreferences []tls.CurveID
	// HTTP1 offers only HTTP/1.1.
	HTTP1 bool
}

// named is a NamedPair that was read.
type named struct {
	names []string
	pair  *reloading[*tls.Certificate]
}

func (p *PKI) openNamed() error {
	for _, n := range p.opts.SNI {
		pair, err := newReloading(p.reloadOptions(), parseKeyPair, n.CertFile, n.KeyFile)
		if err != nil {
			return err
		}
		p.named = append(p.named, named{names: n.Names, pair: pair})
	}
	return nil
}

// nameFor returns the name by which the certificate for a client is chosen. A client that connects to an IP address sends no name; as in
// kube-apiserver, the address then is the name.
func nameFor(hello *tls.ClientHelloInfo) string {
	if hello.ServerName != "" || hello.Conn == nil {
		return hello.ServerName
	}
	host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String())
	if err != nil {
		return "" // a Unix socket has no address
	}
	return host
}

// namedFor returns the certificate for a name; nil when there is none. As in kube-apiserver, an exact name takes precedence
// over a wildcard, given names over names in certificates, and then earlier certificates over later ones.
func (p *PKI) namedFor(server string) *tls.Certificate {
	server = strings.ToLower(strings.TrimSuffix(server, "."))
	wildcard := server
	if _, rest, ok := strings.Cut(server, "."); ok {
		wildcard = "*." + rest
	}
	for _, wanted := range []string{server, wildcard} {
		for _, said := range []bool{true, false} {
			for _, n := range p.named {
				if (len(n.names) > 0) != said {
					continue
				}
				c := n.pair.get().value
				names := n.names
				if !said {
					names = namesOf(c)
				}
				for _, name := range names {
					if strings.EqualFold(name, wanted) {
						return c
					}
				}
			}
		}
	}
	return nil
}

// fitting returns the certificate for a client whose name has no certificate: the first that the client supports, starting with the
// server's own, or else the server's own. crypto/tls chooses likewise in kube-apiserver, where it may find a certificate by a name that
// it contains but was not given for.
func (p *PKI) fitting(hello *tls.ClientHelloInfo, server *tls.Certificate) *tls.Certificate {
	if len(p.named) == 0 || hello.SupportsCertificate(server) == nil {
		return server
	}
	for _, n := range p.named {
		if c := n.pair.get().value; hello.SupportsCertificate(c) == nil {
			return c
		}
	}
	return server
}

// namesOf returns the DNS names of a certificate, which a client can send; it cannot send addresses.
func namesOf(c *tls.Certificate) []string {
	cn := c.Leaf.Subject.CommonName
	_, err := netip.ParseAddr(cn)
	if err != nil && (cn == "*" || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(cn, "*."))) == 0) {
		return append([]string{cn}, c.Leaf.DNSNames...)
	}
	return c.Leaf.DNSNames
}
