package pki

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// AuthoritiesResource is the resource of the rows in which servers on one database keep the certificate authorities that they share. No API serves
// it. Their names are those of Authorities.
const AuthoritiesResource = "authorities.rowlock.internal"

// key is the row of a certificate authority.
func (a authority) key() resources.Key {
	return resources.Key{Resource: AuthoritiesResource, Name: a.name}
}

// sharedAuthority is the content of the row, as PEM.
type sharedAuthority struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// agreeTimeout bounds how long a start waits for the database here.
const agreeTimeout = 30 * time.Second

// agree makes this server use the authority of all servers on the database: the first server publishes its own.
func (p *PKI) agree(rows *resources.Rows, a authority) error {
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	o, err := rows.Get(ctx, a.key(), resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		own, failed := p.refreshCA(a, nil, p.opts.Now())
		if failed != nil {
			return failed
		}
		if err = own.publish(ctx, rows, a); !errors.Is(err, resources.ErrExists) {
			return err
		}
		o, err = rows.Get(ctx, a.key(), resources.At{Match: resources.MostRecent})
	}
	if err != nil {
		return err
	}
	return p.adopt(a, o)
}

// adopt replaces the authority of the data directory by the one of the database. If both have the same key, the one of
// the data directory stays: it is as good, or newer.
func (p *PKI) adopt(a authority, o *resources.Object) error {
	agreed, err := parseShared(o)
	if err != nil {
		return err
	}
	base := p.base(a)
	own, err := readKeyPair(base)
	switch {
	case err != nil:
		return err
	case own != nil && sameKey(own.key.Public(), agreed.key.Public()) && (own.cert == nil || own.fits()): // it does not fit if a write was interrupted
		return nil
	case own != nil:
		p.opts.Logger.Warn("the certificate authority of the database takes the place of the one that was in the data directory", "name", a.name)
	}
	return agreed.write(base)
}

// publish writes an authority into the database. Errors: resources.ErrExists when there is one.
func (k *keyPair) publish(ctx context.Context, rows *resources.Rows, a authority) error {
	key, err := k.keyPEM()
	if err != nil {
		return err
	}
	_, err = rows.Create(ctx, a.key(), "CertificateAuthority", sharedAuthority{Certificate: string(k.certPEM()), Key: string(key)}, 0)
	return err
}

func parseShared(o *resources.Object) (*keyPair, error) {
	var a sharedAuthority
	if err := resources.DecodeInternal(o, &a); err != nil {
		return nil, err
	}
	k, err := parsePair([]byte(a.Certificate), []byte(a.Key))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return k, nil
}

// CheckRow returns what is wrong with a row of certificate authorities or of token keys, without which no server starts; nil for any other object.
func CheckRow(o *resources.Object) error {
	switch o.Resource {
	case AuthoritiesResource:
		_, err := parseShared(o)
		return err
	case tokenKeysKey.Resource:
		var shared sharedTokenKeys
		if err := resources.DecodeInternal(o, &shared); err != nil {
			return err
		}
		_, err := parseTokenKeys([]byte(shared.Keys))
		return err
	}
	return nil
}
