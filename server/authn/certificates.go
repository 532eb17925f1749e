package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	upstream "k8s.io/apiserver/pkg/authentication/request/x509"
)

// certificates authenticates by the client certificate of the connection: the common name is the user, the organizations are the
// groups.
//
// Verifying a certificate costs as much as reading an object, so it is done once per connection. A result becomes invalid when a
// certificate of its chain expires, or when the authorities change.
type certificates struct {
	authorities func() *x509.CertPool
	now         func() time.Time
	counts      *counts
	connections[verified]
}

// verified is the result of verifying a client certificate.
type verified struct {
	authorities *x509.CertPool
	expires     time.Time
	response    *authenticator.Response
	ok          bool
	err         error
}

// refusedFor is how long a connection's certificate that could not be verified is not verified again. A chain of a hundred certificates, which needs
// no valid key, costs 0.2 s.
const refusedFor = 10 * time.Second

func newCertificates(authorities func() *x509.CertPool, now func() time.Time, counts *counts) *certificates {
	return &certificates{authorities: authorities, now: now, counts: counts}
}

// AuthenticateRequest implements authenticator.Request.
func (c *certificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	authorities, now := c.authorities(), c.now()
	c.counts.lifetimes.Observe(r.TLS.PeerCertificates[0].NotAfter.Sub(now).Seconds())
	if v := c.get(r.TLS); v != nil && v.authorities == authorities && now.Before(v.expires) {
		return v.response, v.ok, v.err
	}
	v, err := verify(r.TLS.PeerCertificates, authorities, now)
	if err != nil {
		v = &verified{authorities: authorities, expires: now.Add(refusedFor), err: err}
	}
	c.put(r.TLS, v)
	return v.response, v.ok, v.err
}

func verify(presented []*x509.Certificate, authorities *x509.CertPool, now time.Time) (*verified, error) {
	chain, err := chainOf(presented, authorities, now)
	if err != nil {
		return nil, err
	}
	v := &verified{authorities: authorities, expires: endOfChain(chain)}
	if v.response, v.ok, err = upstream.CommonNameUserConversion.User(chain); err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	// The group that New adds after all authenticators is added here once, and not for every request.
	done := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return v.response, v.ok, nil })
	v.response, v.ok, err = group.NewAuthenticatedGroupAdder(done).AuthenticateRequest(nil)
	return v, err
}

// chainOf verifies a client certificate. All chains begin with the leaf, which alone names the user, so the first chain will do.
func chainOf(presented []*x509.Certificate, authorities *x509.CertPool, now time.Time) ([]*x509.Certificate, error) {
	opts := upstream.DefaultVerifyOptions()
	opts.Roots, opts.CurrentTime = authorities, now
	opts.Intermediates = x509.NewCertPool()
	for _, c := range presented[1:] {
		opts.Intermediates.AddCert(c)
	}
	leaf := presented[0]
	chains, err := leaf.Verify(opts)
	if err != nil {
		return nil, fmt.Errorf("client certificate of %q, serial number %d: %w", leaf.Subject.CommonName, leaf.SerialNumber, err)
	}
	return chains[0], nil
}

// endOfChain returns the earliest expiry of the certificates in a chain.
func endOfChain(chain []*x509.Certificate) time.Time {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}
