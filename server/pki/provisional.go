package pki

import (
	"crypto"
	"path/filepath"
	"time"
)

// Provisional returns certificates for the time before Open, which may have to wait for a database: those of the data directory, if they
// are valid, and otherwise temporary ones. It writes nothing. Errors: files that the user gave cannot be read.
func Provisional(opts Options) (*PKI, error) {
	p, err := open(opts)
	if err != nil {
		return nil, err
	}
	p.provisional = true
	return p, p.refresh(p.opts.Now())
}

// refreshProvisional is refresh for a PKI from Provisional. It is called at each handshake: the clock may be corrected while the server
// waits for a database.
func (p *PKI) refreshProvisional(now time.Time) (err error) {
	names := p.servingNames()
	ca := p.ca.Load()
	if ca == nil || now.After(ca.cert.NotAfter) {
		ca, err = readKeyPair(p.base(clientAuthority))
		if err != nil || ca == nil || ca.cert == nil || !ca.fits() || now.After(ca.cert.NotAfter) {
			if ca, err = issueCA(now, clientAuthority.commonName, nil); err != nil { // Open reports errors of the files
				return err
			}
		}
		p.ca.Store(ca)
	}
	if shown := p.serving.Load(); shown != nil {
		key, _ := shown.PrivateKey.(crypto.Signer)
		if (&keyPair{cert: shown.Leaf, key: key}).usable(ca, now) {
			return nil
		}
	}
	serving, err := readKeyPair(filepath.Join(p.opts.DataDir, "pki", "apiserver"))
	if err != nil || !serving.usable(ca, now) || !names.equal(serving.cert) {
		if serving, err = issueServing(ca, now, names); err != nil {
			return err
		}
	}
	p.serving.Store(serving.tls())
	return nil
}

// servingNames are the names of the server's own serving certificate.
func (p *PKI) servingNames() names { return newNames(append([]string{loopbackName}, p.opts.Names...)) }
