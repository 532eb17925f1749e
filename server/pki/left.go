package pki

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/rowlock/rowlock/resources"
)

// inherit takes what servers that shared a database have left in it, which is this server's alone now: a backup of Postgres was restored into SQLite, or the
// store has moved there. Keep puts it into the data directory where that has none, and tells whether it is there. Then the row goes: the keys of the data
// directory are exchanged without it, and it would bring the old ones back where the store moves to Postgres again. Where the data directory has
// another key, that counts. own: it has one, so that a row that cannot be read is nothing to fail for.
func (p *PKI) inherit(key resources.Key, own bool, keep func(*resources.Object) (kept bool, err error)) error {
	if p.opts.Left == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	o, err := p.opts.Left.Get(ctx, key, resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return nil
	}
	kept := false
	if err == nil {
		kept, err = keep(o)
	}
	if err != nil && own {
		p.opts.Logger.Warn("what servers that shared a database have left in it cannot be read; the keys of the data directory are used", "row", key, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	if !kept {
		p.opts.Logger.Warn("the database has other keys, of servers that shared one, than the data directory, whose keys are used; to use those of the database, move these away",
			"row", key)
		return nil
	}
	if err := p.opts.Left.Delete(ctx, o); err != nil {
		p.opts.Logger.Info("the keys of servers that shared a database could not be removed from it", "row", key, "err", err) // the next start does it
	}
	return nil
}

func (p *PKI) inheritAuthority(a authority) error {
	own, err := readKeyPair(p.base(a))
	if err != nil {
		return err
	}
	return p.inherit(a.key(), own != nil, func(o *resources.Object) (bool, error) {
		left, err := parseShared(o)
		if err != nil {
			return false, err
		}
		if own != nil {
			return sameKey(own.key.Public(), left.key.Public()), nil
		}
		return true, left.write(p.base(a))
	})
}

func (p *PKI) inheritTokenKeys(path string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.inherit(tokenKeysKey, err == nil, func(o *resources.Object) (bool, error) {
		var left sharedTokenKeys
		if err := resources.DecodeInternal(o, &left); err != nil {
			return false, err
		}
		keys, err := parseTokenKeys([]byte(left.Keys))
		if err != nil {
			return false, fmt.Errorf("%s: %w", o.Key, err)
		}
		if data == nil {
			return true, writeFile(path, []byte(left.Keys), 0o600)
		}
		own, err := parseTokenKeys(data)
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			if !hasKey(own, key) {
				return false, nil
			}
		}
		return true, nil
	})
}
