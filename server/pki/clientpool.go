package pki

import (
	"bytes"
	"crypto/x509"
	"slices"
)

// clientPool is a pool of client authorities with the certificates that it was built from; a new one is built only when these change.
type clientPool struct {
	ca    *keyPair
	proxy *keyPair // the front proxy's authority, which is not in the pool, but is published with it
	extra *loaded[[]*x509.Certificate]
	// proxies are further authorities of front proxies, published in the same way.
	proxies *loaded[[]*x509.Certificate]
	pool    *x509.CertPool
	// named are all authorities that may have signed a client's certificate, those of front proxies included.
	named *x509.CertPool
	// believed are the authorities of the user's front proxies; nil without ProxyCAFile. They are not distinct when one of them
	// also signs certificates of other clients.
	believed *x509.CertPool
	distinct bool
	// replaced is closed when there is a newer pool.
	replaced chan struct{}
}

func (p *PKI) clientPool() *clientPool {
	for {
		var extra *loaded[[]*x509.Certificate]
		if p.clientCAs != nil {
			extra = p.clientCAs.get()
		}
		var proxies *loaded[[]*x509.Certificate]
		if p.proxyCAs != nil {
			proxies = p.proxyCAs.get()
		}
		ca, proxy, known := p.ca.Load(), p.proxyCA.Load(), p.pool.Load()
		if known != nil && known.ca == ca && known.proxy == proxy && known.extra == extra && known.proxies == proxies {
			return known
		}
		made := &clientPool{ca: ca, proxy: proxy, extra: extra, proxies: proxies, pool: x509.NewCertPool(), replaced: make(chan struct{})}
		made.fill()
		if !p.pool.CompareAndSwap(known, made) {
			continue // another handshake was faster
		}
		if known != nil {
			close(known.replaced)
		}
		return made
	}
}

func (c *clientPool) fill() {
	for _, ca := range c.certificates() {
		c.pool.AddCert(ca)
	}
	c.named, c.distinct = c.pool, true
	if c.proxies == nil {
		return
	}
	c.named, c.believed = c.pool.Clone(), x509.NewCertPool()
	for _, ca := range c.proxies.value {
		c.named.AddCert(ca)
		c.believed.AddCert(ca)
		c.distinct = c.distinct && !slices.ContainsFunc(c.certificates(), func(other *x509.Certificate) bool {
			return bytes.Equal(ca.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
		})
	}
}

func (c *clientPool) certificates() []*x509.Certificate {
	all := []*x509.Certificate{c.ca.cert}
	if c.extra != nil {
		all = append(all, c.extra.value...)
	}
	return all
}
