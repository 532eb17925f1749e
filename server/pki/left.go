package pki

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

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

// inheritTokenKeys also takes over which keys were taken away, for the day when servers share a database again.
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
		if _, err := parseTokenKeys([]byte(left.Keys)); err != nil {
			return false, fmt.Errorf("%s: %w", o.Key, err)
		}
		if err := noteRemoved(path, left.Removed); err != nil {
			return false, err
		}
		if data == nil {
			return true, writeFile(path, []byte(left.Keys), 0o600)
		}
		if _, err := parseTokenKeys(data); err != nil {
			return false, err
		}
		keys, kept, err := left.over(data)
		if err == nil && !bytes.Equal(keys, data) {
			p.opts.Logger.Info("the keys of ServiceAccount tokens in the data directory follow those that servers shared")
			err = writeFile(path, keys, 0o600)
		}
		return kept, err
	})
}

// over returns the keys that a data directory is to have which has some already, and whether what was shared is among them. The file of a server that
// shared keys is as old as its last start: of keys that were all shared, or taken away since, nothing is lost where it follows.
func (s *sharedTokenKeys) over(data []byte) (keys []byte, kept bool, err error) {
	shared, err := keyBlocks([]byte(s.Keys))
	if err != nil {
		return nil, false, err
	}
	had, err := keyBlocks(data)
	if err != nil {
		return nil, false, err
	}
	own := slices.DeleteFunc(slices.Clone(had), func(b keyBlock) bool { return slices.Contains(s.Removed, b.ID) })
	switch {
	case allIn(shared, own) || !own[0].Private:
		return []byte(s.Keys), true, nil
	case len(own) == len(had):
		return data, allIn(own, shared), nil
	}
	return textOf(own), allIn(own, shared), nil
}

// allIn tells whether keys are all among some.
func allIn(some, keys []keyBlock) bool {
	return !slices.ContainsFunc(keys, func(key keyBlock) bool {
		return !slices.ContainsFunc(some, func(b keyBlock) bool { return b.ID == key.ID })
	})
}
