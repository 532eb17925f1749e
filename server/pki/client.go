package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// ErrNoAuthority says that a data directory has no certificate authority. A server creates it at its first start.
var ErrNoAuthority = errors.New("there is no certificate authority")

// IssueClient issues a client certificate for a user and groups, with the authority of a data directory, which it only reads: a
// server may be using it. It returns the certificate and the key as PEM. The caller decides for which users that is allowed.
//
// Errors: ErrNoAuthority; an end after that of the authority.
func IssueClient(dataDir, user string, groups []string, now time.Time, lifetime time.Duration) (certificate, key []byte, err error) {
	base := filepath.Join(dataDir, "pki", clientAuthority.name)
	ca, err := readKeyPair(base)
	switch {
	case err != nil:
		return nil, nil, err
	case ca == nil || ca.cert == nil:
		return nil, nil, fmt.Errorf("%w in %s", ErrNoAuthority, dataDir)
	case !ca.fits():
		return nil, nil, misfitError(base)
	}
	end := now.Add(lifetime)
	if end.After(ca.cert.NotAfter) {
		return nil, nil, fmt.Errorf("the certificate would end on %s, after that of its authority (%s)", end.UTC().Format(time.DateOnly), ca.cert.NotAfter.Format(time.DateOnly))
	}
	made, err := issueUntil(ca, now, end, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, nil, err
	}
	key, err = made.keyPEM()
	return made.certPEM(), key, err
}
