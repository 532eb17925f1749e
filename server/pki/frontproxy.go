package pki

import (
	"crypto/tls"
	"crypto/x509"
)

// ProxyName is the common name of the certificate by which servers that extend the API know this one. It is the usual one.
const ProxyName = "front-proxy-client"

// proxyAuthority signs that certificate and nothing else: whoever has a certificate of it may say on whose behalf a request is
// sent, so that it must not be the authority of clients.
var proxyAuthority = authority{"front-proxy-ca", "rowlock-front-proxy-ca"}

// refreshProxy renews the front proxy's authority and certificate. The caller holds p.mu.
func (p *PKI) refreshProxy() error {
	ca, err := p.refreshCA(proxyAuthority, p.proxyCA.Load())
	if err != nil {
		return err
	}
	base, now := p.base(authority{name: ProxyName}), p.opts.Now()
	// As with the serving certificate, one that cannot be read is as good as none.
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

// ProxyCertificate returns the certificate that is shown to servers that extend the API, in which this one is ProxyName.
func (p *PKI) ProxyCertificate() *tls.Certificate {
	if p.opts.Now().Unix() >= p.nextLook.Load() {
		p.refreshDue()
	}
	return p.proxy.Load()
}

// ProxyAuthorities returns the authorities of ProxyCertificate.
func (p *PKI) ProxyAuthorities() []*x509.Certificate {
	return []*x509.Certificate{p.proxyCA.Load().cert}
}
