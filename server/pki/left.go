package pki

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/resources"
)

// errRowStays says that what a row has is not kept yet, and that the server can do without.
var errRowStays = errors.New("the row stays")

// inherit takes what servers that shared a database have left in it, which is this server's alone now: a backup of Postgres was restored into SQLite, or the
// store has moved there. Keep puts it into the data directory where that has none, and tells whether it is there. Then the row goes: the keys of the data
// directory are exchanged without it, and it would bring the old ones back where the store moves to Postgres again. Where the data directory has
// another key, that counts. own: it has one, so that a row that read cannot read is nothing to fail for. What keep cannot write is: the data directory
// may have keys that were taken away. It returns the row where that stays, and whether it is kept in the data directory, too.
func (p *PKI) inherit(key resources.Key, own bool, read func(*resources.Object) error, keep func() (kept bool, err error)) (row *resources.Object, kept bool, err error) {
	if p.opts.Left == nil {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	o, err := p.opts.Left.Get(ctx, key, resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return nil, false, nil
	}
	if err == nil {
		err = read(o)
	}
	if err != nil && own {
		p.opts.Logger.Warn("what servers that shared a database have left in it cannot be read; the keys of the data directory are used", "row", key, "err", err)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	kept, err = keep()
	if errors.Is(err, errRowStays) {
		p.opts.Logger.Warn("what servers that shared a database have left in it is not kept in the data directory yet", "row", key, "err", err)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	if !kept {
		p.opts.Logger.Warn("the database has other keys, of servers that shared one, than the data directory, whose keys are used; to use those of the database, move these away",
			"row", key)
		return o, false, nil
	}
	if err := p.opts.Left.Delete(ctx, o); err != nil {
		p.opts.Logger.Info("the keys of servers that shared a database could not be removed from it", "row", key, "err", err) // the next start does it
		return o, true, nil
	}
	return nil, true, nil
}

func (p *PKI) inheritAuthority(a authority) error {
	own, err := readKeyPair(p.base(a))
	if err != nil {
		return err
	}
	var left *keyPair
	_, _, err = p.inherit(a.key(), own != nil, func(o *resources.Object) (err error) {
		left, err = parseShared(o)
		return err
	}, func() (bool, error) {
		if own != nil {
			return sameKey(own.key.Public(), left.key.Public()), nil
		}
		return true, left.write(p.base(a))
	})
	return err
}

// inheritTokenKeys also takes over which keys were taken away, for the day when servers share a database again. It follows a row once: a row that stays
// does not undo what is changed in the data directory from then on.
func (p *PKI) inheritTokenKeys(path string) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var left sharedTokenKeys
	row, kept, err := p.inherit(tokenKeysKey, err == nil, func(o *resources.Object) error {
		if err := resources.DecodeInternal(o, &left); err != nil {
			return err
		}
		if _, err := parseTokenKeys([]byte(left.Keys)); err != nil {
			return fmt.Errorf("%s: %w", o.Key, err)
		}
		return nil
	}, func() (bool, error) { return p.follow(path, data, &left) })
	if kept && row == nil {
		_ = os.Remove(followedFile(path))
	}
	if err != nil || row == nil {
		return err
	}
	if mark := left.mark(kept); mark != readMark(path) {
		if err := writeFile(followedFile(path), []byte(mark+"\n"), 0o600); err != nil {
			p.opts.Logger.Info("the database could not record that the data directory has its keys", "err", err) // it does so again at the next start
		}
	}
	return nil
}

// follow gives the data directory the keys that it is to have, and tells whether all that is left is among them. data: those that it has.
func (p *PKI) follow(path string, data []byte, left *sharedTokenKeys) (kept bool, err error) {
	var had []keyBlock
	if data != nil {
		if _, err := parseTokenKeys(data); err != nil {
			return false, fmt.Errorf("%s: %w", path, err)
		}
		if had, err = keyBlocks(data); err != nil {
			return false, err
		}
	}
	removed, err := removedBefore(path, data)
	if err != nil {
		return false, err
	}
	shared, err := keyBlocks([]byte(left.Keys))
	if err != nil {
		return false, err
	}
	shared = without(shared, removed)
	switch before := readMark(path); {
	case data != nil && before == left.mark(true):
		return true, nil
	case data != nil && before == left.mark(false):
		return allIn(had, shared), nil
	}
	keys, kept := over(had, shared, left.Removed)
	if data != nil && slices.EqualFunc(keys, had, func(a, b keyBlock) bool { return a.TokenKey == b.TokenKey }) {
		if err := noteRemoved(path, left.Removed); err != nil {
			return false, fmt.Errorf("%w: %w", errRowStays, err) // nothing else is to be written: the data directory may be one that cannot be
		}
		return kept, nil
	}
	text, err := p.signing(keys)
	if err == nil {
		err = noteRemoved(path, left.Removed)
	}
	if err != nil {
		return false, err
	}
	if data != nil {
		p.opts.Logger.Info("the keys of ServiceAccount tokens in the data directory follow those that servers shared")
	}
	return kept, writeFile(path, text, 0o600)
}

// over returns the keys that a data directory is to have which has some already, and whether what was shared is among them. The file of a server that
// shared keys is as old as its last start: of keys that were all shared, or taken away since, nothing is lost where it follows. A file with a key of its
// own that can sign keeps its keys; other keys of its own come behind those that were shared.
func over(had, shared []keyBlock, removed []string) (keys []keyBlock, kept bool) {
	own := without(had, removed)
	switch {
	case allIn(shared, own) && canSign(shared):
		return shared, true
	case !canSign(own):
		return joined(shared, own), true
	}
	return own, allIn(own, shared)
}

// followedFile has the mark of the row that the keys have followed, as long as that is there.
func followedFile(keys string) string { return strings.TrimSuffix(keys, ".key") + ".followed" }

// mark tells one row from others: of two that say the same, nothing is to be followed twice.
func (s *sharedTokenKeys) mark(kept bool) string {
	mark := fmt.Sprintf("%x", sha256.Sum256([]byte(s.Keys+strings.Join(s.Removed, "\n"))))
	if kept {
		mark += " kept"
	}
	return mark
}

// readMark returns the mark, or nothing: what cannot be read is followed again.
func readMark(keys string) string {
	data, _ := os.ReadFile(followedFile(keys))
	return strings.TrimSpace(string(data))
}
