package pki

import (
	"math"
	"path/filepath"
)

// Provisional returns certificates for the time before Open, which may have to wait for a database: those of the data directory as far as
// they are good, and others that nobody has seen before. It writes nothing. Errors: files that the user gave cannot be read.
func Provisional(opts Options) (*PKI, error) {
	p, err := open(opts)
	if err != nil {
		return nil, err
	}
	now := p.opts.Now()
	ca, err := readKeyPair(p.base(clientAuthority))
	if err != nil || ca == nil || ca.cert == nil || !ca.fits() || now.After(ca.cert.NotAfter) {
		if ca, err = issueCA(now, clientAuthority.commonName, nil); err != nil { // Open says what is wrong with the files
			return nil, err
		}
	}
	p.ca.Store(ca)
	serving, names := (*keyPair)(nil), p.servingNames()
	if serving, err = readKeyPair(filepath.Join(opts.DataDir, "pki", "apiserver")); err != nil || !serving.usable(ca, now) || !names.equal(serving.cert) {
		if serving, err = issueServing(ca, now, names); err != nil {
			return nil, err
		}
	}
	p.serving.Store(serving.tls())
	p.nextLook.Store(math.MaxInt64) // nothing is renewed
	return p, nil
}

// servingNames are those of the own serving certificate.
func (p *PKI) servingNames() names { return newNames(append([]string{loopbackName}, p.opts.Names...)) }
