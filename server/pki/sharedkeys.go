package pki

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/rowlock/rowlock/resources"
)

// agreeOnTokenKeys makes this server use the keys of all servers on the database: the first server publishes its own, and the others use the
// published ones. An exception is a file with another key before the shared signing key: a user has added it to exchange the keys, so the file
// replaces the published ones. Keys that were removed while this server was alone on its database are also removed from the published ones, in
// whatever order the servers start.
func (p *PKI) agreeOnTokenKeys(rows *resources.Rows, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for {
		err := p.agreeOnce(ctx, rows, path, data)
		if conflict := new(resources.ConflictError); !errors.As(err, &conflict) {
			return err
		} // Another server has changed the row: its content counts now.
	}
}

// agreeOnce is one attempt. data: the file, or nil if there was none. Errors: *resources.ConflictError if another
// server changed the row meanwhile.
func (p *PKI) agreeOnce(ctx context.Context, rows *resources.Rows, path string, data []byte) error {
	removed, err := removedBefore(path, data)
	if err != nil {
		return err
	}
	o, err := rows.Get(ctx, tokenKeysKey, resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		own, failed := p.ownTokenKeys(path)
		if failed != nil {
			return failed
		}
		if _, failed = parseTokenKeys(own); failed != nil {
			return fmt.Errorf("%s: %w", path, failed)
		}
		if _, err = rows.Create(ctx, tokenKeysKey, "TokenKeys", sharedTokenKeys{Keys: string(own), Removed: removed}, 0); !errors.Is(err, resources.ErrExists) {
			return err
		}
		o, err = rows.Get(ctx, tokenKeysKey, resources.At{Match: resources.MostRecent})
	}
	if err != nil {
		return err
	}
	var agreed sharedTokenKeys
	if err := resources.DecodeInternal(o, &agreed); err != nil {
		return err
	}
	if o, err = p.bringRemoved(ctx, rows, o, &agreed, removed, data); err != nil {
		return err
	}
	shared, err := parseTokenKeys([]byte(agreed.Keys))
	if err != nil {
		return fmt.Errorf("%s: %w", o.Key, err)
	}
	if data != nil {
		if done, err := p.offerTokenKeys(ctx, rows, o, path, data, &agreed, shared); done || err != nil {
			return err
		}
	}
	return writeFile(path, []byte(agreed.Keys), 0o600)
}

// bringRemoved adds to the row the IDs of keys that were removed from the file while this server was alone on its database. If the row still has
// one of these keys, it is older than the file: then the keys of the file come first, with its signing key.
func (p *PKI) bringRemoved(ctx context.Context, rows *resources.Rows, o *resources.Object, agreed *sharedTokenKeys, removed []string, data []byte) (*resources.Object, error) {
	known := len(agreed.Removed)
	for _, id := range removed {
		if !slices.Contains(agreed.Removed, id) {
			agreed.Removed = append(agreed.Removed, id)
		}
	}
	if len(agreed.Removed) == known {
		return o, nil
	}
	shared, err := keyBlocks([]byte(agreed.Keys))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	if rest := without(shared, removed); len(rest) < len(shared) {
		var own []keyBlock
		if data != nil {
			if own, err = keyBlocks(data); err != nil {
				return nil, err
			}
		}
		keys, err := p.signing(joined(without(own, agreed.Removed), rest))
		if err != nil {
			return nil, err
		}
		agreed.Keys = string(keys)
		p.opts.Logger.Warn("keys of ServiceAccount tokens that were taken away of the data directory are taken out of the database, which follows the data directory")
	}
	return rows.Update(ctx, o, "TokenKeys", agreed, 0)
}

// offerTokenKeys compares the file with the shared keys, and publishes the file if the keys are to be exchanged.
func (p *PKI) offerTokenKeys(ctx context.Context, rows *resources.Rows, o *resources.Object, path string, data []byte, agreed *sharedTokenKeys, shared []any) (done bool, err error) {
	own, err := parseTokenKeys(data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	removed := func(key any) bool { return slices.Contains(agreed.Removed, keyID(publicOf(key))) }
	switch {
	case slices.ContainsFunc(own, removed):
		p.opts.Logger.Info("a key of ServiceAccount tokens that was taken away is taken out of the data directory")
	case !hasKey(shared, own[0]) && hasKey(own, shared[0]):
		p.opts.Logger.Info("the keys of ServiceAccount tokens in the data directory become those of the database")
		_, err := rows.Update(ctx, o, "TokenKeys", sharedTokenKeys{Keys: string(data), Removed: agreed.Removed}, 0)
		return true, err
	case !hasKey(shared, own[0]):
		p.opts.Logger.Warn("the keys of ServiceAccount tokens in the database take the place of those that were in the data directory")
	}
	for _, key := range shared {
		if hasKey(shared, own[0]) && !hasKey(own, key) {
			p.opts.Logger.Warn("a key of ServiceAccount tokens that is not in the data directory comes from the database; 'rowlock keys remove' takes it away",
				"key", keyID(publicOf(key)))
		}
	}
	return false, nil
}
