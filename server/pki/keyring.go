package pki

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/util/keyutil"

	"github.com/rowlock/rowlock/resources"
)

// KeyRing gives access to the stored keys of ServiceAccount tokens, for exchanging them while servers run: pki/sa.key of a data
// directory, or the row of a database that servers share.
type KeyRing struct {
	path string
	rows *resources.Rows
}

// NewKeyRing returns the KeyRing of a data directory, or, with rows, that of a database.
func NewKeyRing(dataDir string, rows *resources.Rows) *KeyRing {
	return &KeyRing{filepath.Join(dataDir, "pki", tokenKeysName+".key"), rows}
}

// TokenKey is a key of ServiceAccount tokens.
type TokenKey struct {
	// ID is the key's ID in tokens (kid).
	ID string
	// Private keys can sign; the first key of all signs. All keys verify.
	Private bool
}

// ErrNoKey says that there is no key with an ID.
var ErrNoKey = errors.New("there is no such key")

// List returns the keys; the first signs. Errors: those of reading a file, or of resources.Reader.
func (k *KeyRing) List(ctx context.Context) ([]TokenKey, error) {
	kept, _, err := k.read(ctx)
	if err != nil {
		return nil, err
	}
	blocks, err := keyBlocks([]byte(kept.Keys))
	if err != nil {
		return nil, err
	}
	var all []TokenKey
	for _, b := range blocks {
		all = append(all, b.TokenKey)
	}
	return all, nil
}

// Add creates a key that verifies and is published, and that signs after a call of Sign. It returns its ID.
func (k *KeyRing) Add(ctx context.Context) (id string, err error) {
	text, err := newTokenKey()
	if err != nil {
		return "", err
	}
	made, err := keyBlocks(text)
	if err != nil {
		return "", err
	}
	return made[0].ID, k.change(ctx, func(blocks []keyBlock, _ *sharedTokenKeys) ([]keyBlock, error) { return append(blocks, made...), nil })
}

// Sign makes a private key the signing one. Errors: ErrNoKey.
func (k *KeyRing) Sign(ctx context.Context, id string) error {
	return k.change(ctx, func(blocks []keyBlock, _ *sharedTokenKeys) ([]keyBlock, error) {
		i := slices.IndexFunc(blocks, func(b keyBlock) bool { return b.ID == id })
		switch {
		case i < 0:
			return nil, fmt.Errorf("%w: %s", ErrNoKey, id)
		case !blocks[i].Private:
			return nil, fmt.Errorf("%s is a public key, which cannot sign", id)
		}
		chosen := blocks[i]
		return slices.Insert(slices.Delete(blocks, i, i+1), 0, chosen), nil
	})
}

// Remove removes a key, whose signatures a server then refuses as soon as it has read the change. It records the removal, so that no file that still has the key
// restores it to a database that servers share. Errors: ErrNoKey; the key is the signing one.
func (k *KeyRing) Remove(ctx context.Context, id string) error {
	return k.change(ctx, func(blocks []keyBlock, kept *sharedTokenKeys) ([]keyBlock, error) {
		i := slices.IndexFunc(blocks, func(b keyBlock) bool { return b.ID == id })
		switch {
		case i < 0:
			return nil, fmt.Errorf("%w: %s", ErrNoKey, id)
		case i == 0:
			return nil, fmt.Errorf("%s signs: have another one do that first", id)
		}
		kept.Removed = append(kept.Removed, id)
		return slices.Delete(blocks, i, i+1), nil
	})
}

func (k *KeyRing) change(ctx context.Context, change func([]keyBlock, *sharedTokenKeys) ([]keyBlock, error)) error {
	kept, row, err := k.read(ctx)
	if err != nil {
		return err
	}
	blocks, err := keyBlocks([]byte(kept.Keys))
	if err != nil {
		return err
	}
	if blocks, err = change(blocks, kept); err != nil {
		return err
	}
	text := textOf(blocks)
	if _, err := parseTokenKeys(text); err != nil {
		return err
	}
	if row == nil {
		if err := noteRemoved(k.path, kept.Removed); err != nil {
			return err
		}
		return writeFile(k.path, text, 0o600)
	}
	kept.Keys = string(text)
	_, err = k.rows.Update(ctx, row, "TokenKeys", kept, 0)
	return err
}

// read returns the stored keys, and their row, if they are not in a file.
func (k *KeyRing) read(ctx context.Context) (*sharedTokenKeys, *resources.Object, error) {
	if k.rows == nil {
		text, err := os.ReadFile(k.path)
		return &sharedTokenKeys{Keys: string(text)}, nil, err
	}
	row, err := k.rows.Get(ctx, tokenKeysKey, resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, nil, fmt.Errorf("the keys in the database: %w", err)
	}
	kept := &sharedTokenKeys{}
	return kept, row, resources.DecodeInternal(row, kept)
}

// keyBlock is a key in PEM.
type keyBlock struct {
	TokenKey
	text []byte
}

func textOf(blocks []keyBlock) (text []byte) {
	for _, b := range blocks {
		text = append(text, b.text...)
	}
	return text
}

func keyBlocks(data []byte) (all []keyBlock, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		text := pem.EncodeToMemory(block)
		b := keyBlock{text: text}
		if private, err := keyutil.ParsePrivateKeyPEM(text); err == nil {
			b.Private = true
			b.ID = keyID(publicOf(private))
		} else if public, err := keyutil.ParsePublicKeysPEM(text); err == nil && len(public) > 0 {
			b.ID = keyID(public[0])
		} else {
			continue // parameters of a curve, which openssl writes before the key
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, errors.New("no key in PEM")
	}
	return all, nil
}

// keyID returns the ID of a key in tokens, as upstream computes it.
func keyID(public crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// removedFile is the file with the IDs of keys that were removed from the key file, one per line. Only shared keys are checked against it: a server
// that is alone on its database uses the key file as it is.
func removedFile(keys string) string { return strings.TrimSuffix(keys, ".key") + ".removed" }

// noteRemoved adds IDs to those of removed keys.
func noteRemoved(keys string, ids []string) error {
	known, err := readRemoved(keys)
	if err != nil {
		return err
	}
	all := known
	for _, id := range ids {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	if len(all) == len(known) {
		return nil
	}
	return writeFile(removedFile(keys), []byte(strings.Join(all, "\n")+"\n"), 0o600)
}

func readRemoved(keys string) ([]string, error) {
	data, err := os.ReadFile(removedFile(keys))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

// removedBefore returns the IDs that were removed from the file and were not added again by hand. data: the content of
// the file, nil when there is none.
func removedBefore(keys string, data []byte) ([]string, error) {
	removed, err := readRemoved(keys)
	if err != nil || data == nil {
		return removed, err
	}
	blocks, err := keyBlocks(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keys, err)
	}
	return slices.DeleteFunc(removed, func(id string) bool {
		return slices.ContainsFunc(blocks, func(b keyBlock) bool { return b.ID == id })
	}), nil
}

// without returns keys except those that were removed.
func without(keys []keyBlock, removed []string) []keyBlock {
	return slices.DeleteFunc(slices.Clone(keys), func(b keyBlock) bool { return slices.Contains(removed, b.ID) })
}

// joined returns keys, followed by those of others that are not among them.
func joined(keys, others []keyBlock) []keyBlock {
	all := slices.Clone(keys)
	for _, key := range others {
		if !allIn(all, []keyBlock{key}) {
			all = append(all, key)
		}
	}
	return all
}

// allIn tells whether some contains all of keys.
func allIn(some, keys []keyBlock) bool {
	return !slices.ContainsFunc(keys, func(key keyBlock) bool {
		return !slices.ContainsFunc(some, func(b keyBlock) bool { return b.ID == key.ID })
	})
}

// canSign tells whether there is a private key.
func canSign(keys []keyBlock) bool {
	return slices.ContainsFunc(keys, func(b keyBlock) bool { return b.Private })
}

// signing returns keys in PEM, with the first private one at the front, where it signs. It creates one if all private keys were removed.
func (p *PKI) signing(keys []keyBlock) ([]byte, error) {
	i := slices.IndexFunc(keys, func(b keyBlock) bool { return b.Private })
	if i < 0 {
		made, err := newTokenKey()
		p.opts.Logger.Warn("all keys that signed tokens of ServiceAccounts were taken away: a new one is made")
		return append(made, textOf(keys)...), err
	}
	return textOf(joined([]keyBlock{keys[i]}, keys)), nil
}
