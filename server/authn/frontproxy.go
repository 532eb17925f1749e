package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
)

// FrontProxies say which proxies may send requests on behalf of users ("Authenticating Proxy" of the authentication page of the
// Kubernetes documentation).
type FrontProxies struct {
	// CAs returns the authorities of their certificates; it returns another pool when they have changed; nil: there are none.
	CAs func() *x509.CertPool
	// Names are the common names that their certificates may have. None: any name.
	Names []string
	// Users, UIDs, Groups and Extras are the headers that name the user; those of Extras are prefixes.
	Users, UIDs, Groups, Extras headerrequest.StaticStringSlice
}

// frontProxies authenticates users by the headers of a proxy, and the proxy by the client certificate of its connection, which is
// verified once.
type frontProxies struct {
	*FrontProxies
	now     func() time.Time
	headers authenticator.Request
	known   connections[proxy]
}

// proxy is the result of verifying the certificate of a connection. It is also kept when the certificate was not signed by a
// proxy's authority: then the client is not a proxy.
type proxy struct {
	authorities *x509.CertPool
	expires     time.Time
	err         error
}

func newFrontProxies(f *FrontProxies, now func() time.Time) *frontProxies {
	return &frontProxies{FrontProxies: f, now: now, headers: headerrequest.NewDynamic(f.Users, f.UIDs, f.Groups, f.Extras)}
}

// AuthenticateRequest implements authenticator.Request.
func (f *frontProxies) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	authorities, now := f.CAs(), f.now()
	if authorities == nil {
		return nil, false, nil
	}
	p := f.known.get(r.TLS)
	if p == nil || p.authorities != authorities || !now.Before(p.expires) {
		p = f.verify(r.TLS.PeerCertificates, authorities, now)
		if unknown := (x509.UnknownAuthorityError{}); p.err != nil && !errors.As(p.err, &unknown) {
			p.expires = now.Add(refusedFor)
		}
		f.known.put(r.TLS, p)
	}
	if p.err != nil {
		return nil, false, p.err
	}
	return f.headers.AuthenticateRequest(r)
}

func (f *frontProxies) verify(presented []*x509.Certificate, authorities *x509.CertPool, now time.Time) *proxy {
	p := &proxy{authorities: authorities, expires: presented[0].NotAfter}
	chain, err := chainOf(presented, authorities, now)
	if err != nil {
		p.err = err
		return p
	}
	p.expires = endOfChain(chain)
	if name := presented[0].Subject.CommonName; len(f.Names) > 0 && !slices.Contains(f.Names, name) {
		p.err = fmt.Errorf("x509: subject with cn=%s is not in the allowed list", name)
	}
	return p
}
