package authn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"
	"weak"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	upstream "k8s.io/apiserver/pkg/authentication/request/x509"
)

// certificates knows users by the client certificate of their connection: the common name is the user, the
// organizations are the groups.
//
// Verifying a certificate costs as much as reading an object, so it is done once per connection. net/http shows every
// request of a connection the same *tls.ConnectionState, over HTTP/1.1 and HTTP/2, which is therefore the key; it is
// held weakly, and an entry goes when its connection is gone. An entry stops being believed when a certificate of its
// chain expires, or when the authorities change.
type certificates struct {
	authorities func() *x509.CertPool
	now         func() time.Time
	known       sync.Map // of weak.Pointer[tls.ConnectionState] to *verified
}

// verified is what came of verifying a client certificate. Failures are not kept: who presents a bad certificate gains
// nothing from a quick answer.
type verified struct {
	authorities *x509.CertPool
	expires     time.Time
	response    *authenticator.Response
	ok          bool
}

func newCertificates(authorities func() *x509.CertPool, now func() time.Time) *certificates {
	return &certificates{authorities: authorities, now: now}
}

// AuthenticateRequest implements authenticator.Request.
func (c *certificates) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	connection := weak.Make(r.TLS)
	authorities, now := c.authorities(), c.now()
	entry, again := c.known.Load(connection)
	if again {
		v := entry.(*verified)
		if v.authorities == authorities && now.Before(v.expires) {
			return v.response, v.ok, nil
		}
	}
	v, err := verify(r.TLS.PeerCertificates, authorities, now)
	if err != nil {
		return nil, false, err
	}
	if _, again = c.known.Swap(connection, v); !again {
		runtime.AddCleanup(r.TLS, func(key weak.Pointer[tls.ConnectionState]) { c.known.Delete(key) }, connection)
	}
	return v.response, v.ok, nil
}

func verify(presented []*x509.Certificate, authorities *x509.CertPool, now time.Time) (*verified, error) {
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
	v := &verified{authorities: authorities}
	// All chains begin with the leaf, which alone says who it is; the first is as good as any.
	if v.response, v.ok, err = upstream.CommonNameUserConversion.User(chains[0]); err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	for _, c := range chains[0] {
		if v.expires.IsZero() || c.NotAfter.Before(v.expires) {
			v.expires = c.NotAfter
		}
	}
	return v, nil
}
