package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	caLifetime   = 10 * 365 * 24 * time.Hour
	leafLifetime = 365 * 24 * time.Hour
	// backdating makes a new certificate valid for clients whose clock is behind.
	backdating = time.Hour
)

// caNotBefore is the beginning of every authority's validity. It is before any clock, so that no authority has to be
// replaced, and none is refused by clients, while the clock of a machine is behind or after it was ahead: machines without
// a hardware clock boot in 1970.
var caNotBefore = time.Unix(0, 0)

// keyPair is a certificate and its private key. An authority whose creation was interrupted has only the key.
type keyPair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func (k *keyPair) tls() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{k.cert.Raw}, PrivateKey: k.key, Leaf: k.cert}
}

// fits reports whether key and certificate belong together.
func (k *keyPair) fits() bool { return sameKey(k.key.Public(), k.cert.PublicKey) }

// sameKey compares public keys.
func sameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// current reports whether there is a certificate that is valid and need not be renewed yet. NotBefore is checked, too,
// because a machine without a hardware clock may have issued it when its clock was ahead. An authority that does not
// begin at caNotBefore is renewed once for that reason.
func (k *keyPair) current(now time.Time) bool {
	return k != nil && k.cert != nil && !now.Before(k.cert.NotBefore) && now.Before(renewAt(k.cert))
}

// usable reports whether k is a current certificate of ca, with the right key.
func (k *keyPair) usable(ca *keyPair, now time.Time) bool {
	return k.current(now) && k.fits() && k.cert.CheckSignatureFrom(ca.cert) == nil
}

// renewAt returns the time at which two thirds of a certificate's life are over: the last third remains for clients to fetch the new one.
// Most of the time from caNotBefore on does not count.
func renewAt(c *x509.Certificate) time.Time {
	return c.NotAfter.Add(-min(c.NotAfter.Sub(c.NotBefore), caLifetime) / 3)
}

// issueCA issues the certificate of an authority. It keeps the key of a predecessor, so that certificates signed by it
// stay valid, and so that clients that know only the predecessor accept those signed by the new one. A clock that is
// behind does not make it end before its predecessor.
func issueCA(now time.Time, commonName string, predecessor *keyPair) (*keyPair, error) {
	var key crypto.Signer
	var err error
	if predecessor != nil {
		key = predecessor.key
	} else if key, err = newKey(); err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		NotBefore:             caNotBefore,
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	if predecessor != nil && predecessor.cert != nil {
		template.Subject, template.RawSubject = pkix.Name{}, predecessor.cert.RawSubject
		template.SubjectKeyId = predecessor.cert.SubjectKeyId
		if last := predecessor.cert.NotAfter; last.After(template.NotAfter) {
			template.NotAfter = last
		}
	}
	return sign(template, key, &keyPair{cert: template, key: key})
}

func issueServing(ca *keyPair, now time.Time, n names) (*keyPair, error) {
	return issue(ca, now, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "rowlock"},
		DNSNames:    n.dns,
		IPAddresses: n.ips,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func issueAdmin(ca *keyPair, now time.Time) (*keyPair, error) {
	return issue(ca, now, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kubernetes-admin", Organization: []string{user.SystemPrivilegedGroup}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func issueProxy(ca *keyPair, now time.Time) (*keyPair, error) {
	return issue(ca, now, &x509.Certificate{
		Subject:     pkix.Name{CommonName: ProxyName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// issue issues a certificate with the lifetime of the server's own certificates.
func issue(ca *keyPair, now time.Time, template *x509.Certificate) (*keyPair, error) {
	return issueUntil(ca, now, now.Add(leafLifetime), template) // ca ends later: it is renewed when a third of its life is left
}

func issueUntil(ca *keyPair, now, end time.Time, template *x509.Certificate) (*keyPair, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template.NotBefore = now.Add(-backdating)
	template.NotAfter = end
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	return sign(template, key, ca)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func sign(template *x509.Certificate, key crypto.Signer, by *keyPair) (*keyPair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &keyPair{cert: cert, key: key}, nil
}

// DefaultNames are the names under which clients reach a server without --tls-san: from the same machine, by its host
// name, and from within a cluster, where serviceIP is the address of the Service "kubernetes".
func DefaultNames(hostname, serviceIP string) []string {
	n := []string{"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", serviceIP}
	// Some machines have names that no certificate can have.
	if hostname = strings.ToLower(hostname); ValidName(hostname) {
		n = append(n, hostname)
	}
	return n
}

// ValidName reports whether a certificate can be issued for name: an IP address, or a DNS name, whose first label may
// be a wildcard.
func ValidName(name string) bool {
	return net.ParseIP(name) != nil || len(validation.IsDNS1123Subdomain(name)) == 0 ||
		len(validation.IsWildcardDNS1123Subdomain(name)) == 0
}

// names are subject alternative names, sorted so that two sets can be compared.
type names struct {
	dns []string
	ips []net.IP
}

func newNames(all []string) names {
	var n names
	for _, s := range all {
		if ip := net.ParseIP(s); ip != nil {
			if v4 := ip.To4(); v4 != nil {
				ip = v4 // the form in which a certificate carries it
			}
			n.ips = append(n.ips, ip)
		} else {
			n.dns = append(n.dns, s)
		}
	}
	slices.Sort(n.dns)
	n.dns = slices.Compact(n.dns)
	slices.SortFunc(n.ips, func(a, b net.IP) int { return bytes.Compare(a, b) })
	n.ips = slices.CompactFunc(n.ips, net.IP.Equal)
	return n
}

func (n names) equal(c *x509.Certificate) bool {
	return slices.Equal(n.dns, c.DNSNames) && slices.EqualFunc(n.ips, c.IPAddresses, net.IP.Equal)
}

func (n names) strings() []string {
	out := slices.Clone(n.dns)
	for _, ip := range n.ips {
		out = append(out, ip.String())
	}
	return out
}
