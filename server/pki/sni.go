package pki

import (
	"crypto/tls"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// NamedPair is a certificate for clients that ask for one of its names.
type NamedPair struct {
	// Names are DNS names, with a wildcard for the first label perhaps. None: those that the certificate has.
	Names []string
	// CertFile and KeyFile are read again when they change.
	CertFile, KeyFile string
}

// TLSOptions are what of TLS clients may choose from; empty: what crypto/tls has by default, from version 1.2.
type TLSOptions struct {
	MinVersion       uint16
	CipherSuites     []uint16 // of TLS 1.2
	CurvePreferences []tls.CurveID
	// HTTP1 offers HTTP/1.1 alone.
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

// namedFor returns the certificate that stands for a name; nil when there is none. As with kube-apiserver, a name goes before a
// wildcard, what was said before what certificates say, and among those what was given first.
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

// fitting is for a client whose name stands for no certificate: the first that it can take, the server's own before those for names, is
// shown, or else the server's. So does crypto/tls choose for kube-apiserver, which finds certificates by names that they have, but were
// not given for.
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

// namesOf are the names of a certificate that a client can ask for: none are addresses.
func namesOf(c *tls.Certificate) []string {
	cn := c.Leaf.Subject.CommonName
	_, err := netip.ParseAddr(cn)
	if err != nil && (cn == "*" || len(validation.IsDNS1123Subdomain(strings.TrimPrefix(cn, "*."))) == 0) {
		return append([]string{cn}, c.Leaf.DNSNames...)
	}
	return c.Leaf.DNSNames
}
