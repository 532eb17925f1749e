package pki

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// Authorities are the names of the certificate authorities of a server.
func Authorities() []string { return []string{clientAuthority.name, proxyAuthority.name} }

// ReplaceAuthority replaces one of Authorities by an authority with a new key: in a data directory, and, with rows, in the database, from
// which the other servers take it. Running servers use the old one until they restart. It returns the file with the old certificate, for
// clients that have to trust it for a while.
//
// Errors: ErrNoAuthority; those of files, and of resources.Writer.
func ReplaceAuthority(ctx context.Context, dataDir, name string, rows *resources.Rows, now time.Time) (previous string, err error) {
	a := clientAuthority
	if name == proxyAuthority.name {
		a = proxyAuthority
	}
	p := &PKI{opts: Options{DataDir: dataDir}}
	base := p.base(a)
	old, err := readKeyPair(base)
	if err != nil {
		return "", err
	}
	if old == nil || old.cert == nil {
		return "", fmt.Errorf("%w in %s", ErrNoAuthority, dataDir)
	}
	made, err := issueCA(now, a.commonName, nil)
	if err != nil {
		return "", err
	}
	if rows != nil {
		if old, err = made.replaceShared(ctx, rows, a); err != nil {
			return "", err
		}
	}
	previous = base + ".previous.crt"
	if err := writeFile(previous, old.certPEM(), 0o644); err != nil {
		return "", err
	}
	return previous, made.write(base)
}

// replaceShared replaces the authority of a database, and returns the old one.
func (k *keyPair) replaceShared(ctx context.Context, rows *resources.Rows, a authority) (old *keyPair, err error) {
	row, err := rows.Get(ctx, a.key(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, fmt.Errorf("the authority in the database: %w", err)
	}
	if old, err = parseShared(row); err != nil {
		return nil, err
	}
	key, err := k.keyPEM()
	if err != nil {
		return nil, err
	}
	_, err = rows.Update(ctx, row, "CertificateAuthority", sharedAuthority{Certificate: string(k.certPEM()), Key: string(key)}, 0)
	return old, err
}
