package pki

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"
)

// ProxyName is the common name of the certificate by which extension API servers recognise this server. It is the usual one.
const ProxyName = "front-proxy-client"

// proxyAuthority signs that certificate and nothing else: the holder of a certificate of it may send requests on behalf of any
// user, so it must not be the authority of clients.
var proxyAuthority = authority{"front-proxy-ca", "rowlock-front-proxy-ca"}

// refreshProxy renews the front proxy's authority and certificate. The caller holds p.mu.
func (p *PKI) refreshProxy(now time.Time) error {
	ca, err := p.refreshCA(proxyAuthority, p.proxyCA.Load(), now)
	if err != nil {
		return err
	}
	base := p.base(authority{name: ProxyName})
	// As with the serving certificate, an unreadable one is replaced.
	have, err := readKeyPair(base)
	if err != nil || !have.usable(ca, now) {
		if have, err = issueProxy(ca, now); err != nil {
			return err
		}
		p.opts.Logger.Info("issued front proxy certificate", "notAfter", have.cert.NotAfter)
		if err := have.write(base); err != nil {
			return err
		}
	}
	p.proxyCA.Store(ca)
	p.proxy.Store(have.tls())
	return nil
}

// ProxyCertificate returns the client certificate for extension API servers, in which this server has the name ProxyName.
func (p *PKI) ProxyCertificate() *tls.Certificate {
	if p.userProxy != nil {
		return p.userProxy.get().value
	}
	if p.due(p.opts.Now()) {
		p.refreshDue()
	}
	return p.proxy.Load()
}

// ProxyAuthorities returns the authorities of ProxyCertificate, and those of other front proxies.
func (p *PKI) ProxyAuthorities() (all []*x509.Certificate) {
	if p.proxyCAs != nil {
		all = p.proxyCAs.get().value
	}
	if p.userProxy == nil {
		all = append(slices.Clip(all), p.proxyCA.Load().cert)
	}
	return all
}

// FrontProxyCAs returns the authorities of front proxies in the user's file, which may send requests to this server on behalf of
// users. It is the same pool until they change, and nil without a file. They are distinct when none of them signs certificates of
// other clients, any of which could then claim to be a proxy.
func (p *PKI) FrontProxyCAs() (pool *x509.CertPool, distinct bool) {
	c := p.clientPool()
	return c.believed, c.distinct
}

// openProxyFiles reads the files that the user gave for the front proxy.
func (p *PKI) openProxyFiles() (err error) {
	if p.opts.ProxyCertFile != "" {
		if p.userProxy, err = newReloading(p.reloadOptions(), parseKeyPair, p.opts.ProxyCertFile, p.opts.ProxyKeyFile); err != nil {
			return err
		}
	}
	if p.opts.ProxyCAFile != "" {
		p.proxyCAs, err = newReloading(p.reloadOptions(), parseCertificates, p.opts.ProxyCAFile)
	}
	return err
}
