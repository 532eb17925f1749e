package pki

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"time"
)

// ProxyName is the common name of the certificate by which servers that extend the API know this one. It is the usual one.
const ProxyName = "front-proxy-client"

// proxyAuthority signs that certificate and nothing else: whoever has a certificate of it may say on whose behalf a request is
// sent, so that it must not be the authority of clients.
var proxyAuthority = authority{"front-proxy-ca", "rowlock-front-proxy-ca"}

// refreshProxy renews the front proxy's authority and certificate. The caller holds p.mu.
func (p *PKI) refreshProxy(now time.Time) error {
	ca, err := p.refreshCA(proxyAuthority, p.proxyCA.Load(), now)
	if err != nil {
		return err
	}
	base := p.base(authority{name: ProxyName})
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

// FrontProxyCAs returns the authorities of proxies that say, to this server, on whose behalf a request is sent: those of the user's
// file. It is the same pool until they change, and nil without a file. They are distinct when none of them signs certificates of
// other clients, of whom each could say that it is a proxy.
func (p *PKI) FrontProxyCAs() (pool *x509.CertPool, distinct bool) {
	c := p.clientPool()
	return c.believed, c.distinct
}

// openProxyFiles reads what the user gave for the front proxy.
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
