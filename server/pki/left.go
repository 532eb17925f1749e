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

// errRowStays says that the content of a row was not saved yet, and that the server can do without it.
var errRowStays = errors.New("the row stays")

// inherit handles a row that servers sharing a database have left in it, where the database is now this server's alone: a backup of Postgres was
// restored into SQLite, or the store was migrated. keep saves its content in the data directory if that has none, and tells whether the data
// directory has the content. Then the row is deleted: the keys of the data directory are exchanged without it, and it would restore old keys if the
// store is migrated to Postgres again. A different key in the data directory takes precedence. own: the data directory has a key, so a row that read
// cannot read is no error. An error of keep is one, because the data directory may still have keys that were removed. inherit returns the row if it
// stays, and whether its content is in the data directory, too.
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
		p.opts.Logger.Warn("what servers that shared a database have left in it cannot be read; the keys of the data directory are used", "row", key, "error", err)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	kept, err = keep()
	if errors.Is(err, errRowStays) {
		p.opts.Logger.Warn("what servers that shared a database have left in it is not kept in the data directory yet", "row", key, "error", err)
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
		p.opts.Logger.Info("the keys of servers that shared a database could not be removed from it", "row", key, "error", err) // every start retries
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

// inheritTokenKeys also takes over the IDs of removed keys, in case servers share a database again. It applies a row once: a row that stays does
// not revert later changes in the data directory.
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
			p.opts.Logger.Info("the data directory could not record that it has the keys of the database", "error", err) // every start retries
		}
	}
	return nil
}

// follow writes the keys that the data directory has to have, and tells whether they include all keys that were left. data: the present keys.
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
			return false, fmt.Errorf("%w: %w", errRowStays, err) // without keys to write, a read-only data directory is no error
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

// over returns the keys for a data directory that has the keys had, and whether they include all shared keys. The file of a server that shared keys
// is as old as its last start: if its keys were all shared or removed since, nothing is lost when the shared keys replace them. A file with a key
// of its own that can sign keeps its keys; other keys of its own follow the shared ones.
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

// followedFile is the file with the mark of the row that was applied, as long as the row exists.
func followedFile(keys string) string { return strings.TrimSuffix(keys, ".key") + ".followed" }

// mark identifies the content of a row, which is applied only once.
func (s *sharedTokenKeys) mark(kept bool) string {
	mark := fmt.Sprintf("%x", sha256.Sum256([]byte(s.Keys+strings.Join(s.Removed, "\n"))))
	if kept {
		mark += " kept"
	}
	return mark
}

// readMark returns the mark, or nothing if it cannot be read: the row is then applied again.
func readMark(keys string) string {
	data, _ := os.ReadFile(followedFile(keys))
	return strings.TrimSpace(string(data))
}
