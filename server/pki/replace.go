package pki

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// Authorities are the names of the certificate authorities of a server.
func Authorities() []string { return []string{clientAuthority.name, proxyAuthority.name} }

// ReplaceAuthority makes a new authority, with a new key, that takes the place of one of Authorities when servers restart. The new authority is
// stored in a file of its own (PKI.next), and, with rows, in the database, from which the other servers take it. Running servers, and whatever
// else reads their files, use the old one until then. ReplaceAuthority returns the file with the old certificate, for clients that have to trust it
// for a while. The file is written first: an interrupted ReplaceAuthority can be repeated.
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
	key, err := made.keyPEM()
	if err != nil {
		return "", err
	}
	saved := old.certPEM()
	var row *resources.Object
	if rows != nil {
		var agreed *keyPair
		if row, agreed, err = readShared(ctx, rows, a); err != nil {
			return "", err
		}
		// This server uses the authority of its files until it starts again. Others may have started since an earlier replacement.
		if !sameKey(agreed.cert.PublicKey, old.cert.PublicKey) {
			saved = append(saved, agreed.certPEM()...)
		}
	}
	previous = base + ".previous.crt"
	if err := writeFile(previous, saved, 0o644); err != nil {
		return "", err
	}
	if row != nil {
		if _, err := rows.Update(ctx, row, "CertificateAuthority", sharedAuthority{Certificate: string(made.certPEM()), Key: string(key)}, 0); err != nil {
			return "", err
		}
	}
	return previous, writeFile(p.next(a), append(key, made.certPEM()...), 0o600)
}

// next is the file with an authority that takes the place of the present one at the next start. It has both the key and the certificate, so that it
// is written whole or not at all.
func (p *PKI) next(a authority) string { return nextOf(p.base(a)) }

func nextOf(base string) string { return base + ".next.pem" }

// useNext makes the authority of the file next the present one. If it is interrupted, the next start repeats it.
func (p *PKI) useNext(a authority) error {
	path := p.next(a)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	made, err := parsePair(data, data)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := made.write(p.base(a)); err != nil {
		return err
	}
	p.opts.Logger.Info("the certificate authority was replaced", "name", a.name)
	return os.Remove(path)
}

// readShared returns the authority of a database, and its row.
func readShared(ctx context.Context, rows *resources.Rows, a authority) (*resources.Object, *keyPair, error) {
	row, err := rows.Get(ctx, a.key(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, nil, fmt.Errorf("the authority in the database: %w", err)
	}
	agreed, err := parseShared(row)
	return row, agreed, err
}
