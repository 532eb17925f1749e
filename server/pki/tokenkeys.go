package pki

import (
	"context"
	"crypto"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources"
)

// TokenKeyOptions say which keys sign and verify tokens of ServiceAccounts.
type TokenKeyOptions struct {
	// Issuer is the issuer in signed tokens.
	Issuer string
	// SigningKeyFile holds the private key that signs, in PEM. Empty: the first key of pki/sa.key, which is created if there is
	// none, and which servers on one database share.
	SigningKeyFile string
	// KeyFiles hold further keys in PEM, public or private, whose tokens are accepted. With SigningKeyFile and without KeyFiles, the
	// key of SigningKeyFile is the only one.
	KeyFiles []string
	// OnlyKeyFiles: if SigningKeyFile and KeyFiles are given, the signing key is accepted only if it is among KeyFiles, as in kube-apiserver.
	OnlyKeyFiles bool
}

// TokenKeys signs tokens, and has the keys that verify them. The first key of pki/sa.key signs and every one verifies, so that
// keys can be exchanged one after the other; a change of the file, or of the database, takes effect at the next token. Files
// that the user gave are read once.
//
// It is a serviceaccount.PublicKeysGetter and a serviceaccount.TokenGenerator.
type TokenKeys struct {
	issuer string
	given  []any // keys of the user's files, which only verify
	// onlyGiven: only these verify.
	onlyGiven bool
	file      *reloading[[]any]
	rows      *resources.Rows

	mu        sync.Mutex
	listeners []serviceaccount.Listener
	current   atomic.Pointer[tokenKeySet]
}

// tokenKeySet is one state of the keys.
type tokenKeySet struct {
	source    any // identifies the state of the file or row that they were read from
	getter    serviceaccount.PublicKeysGetter
	generator serviceaccount.TokenGenerator
	legacy    serviceaccount.TokenGenerator
}

// tokenKeysName is the name of the file in pki/ and of the row in the database.
const tokenKeysName = "sa"

var tokenKeysKey = resources.Key{Resource: "tokenkeys.rowlock.internal", Name: tokenKeysName}

// sharedTokenKeys is the content of the row: Keys is pki/sa.key, byte for byte.
type sharedTokenKeys struct {
	Keys string `json:"keys"`
	// Removed are the IDs of removed keys: no file restores them.
	Removed []string `json:"removed,omitempty"`
}

// tokenKeysAge is how long other verifiers of tokens may cache the keys, as in kube-apiserver.
const tokenKeysAge = time.Hour

// TokenKeys reads the keys, and creates one if there is none. Errors: a file or a row that cannot be read.
func (p *PKI) TokenKeys(o TokenKeyOptions) (*TokenKeys, error) {
	t := &TokenKeys{issuer: o.Issuer}
	files := o.KeyFiles
	if o.SigningKeyFile != "" && len(files) == 0 {
		files = []string{o.SigningKeyFile}
	}
	for _, file := range files {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("--service-account-key-file: %w", err)
		}
		t.given = append(t.given, keys...)
	}
	if o.SigningKeyFile != "" {
		key, err := keyutil.PrivateKeyFromFile(o.SigningKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		t.onlyGiven = o.OnlyKeyFiles
		if t.onlyGiven && !hasKey(t.given, key) {
			p.opts.Logger.Warn("tokens of ServiceAccounts will be signed, and refused: the key of --service-account-signing-key-file is none of --service-account-key-file",
				"signing", o.SigningKeyFile, "accepted", o.KeyFiles)
		}
		set, err := t.made(nil, []any{key}, t.given)
		if err != nil {
			return nil, fmt.Errorf("--service-account-signing-key-file: %w", err)
		}
		t.current.Store(set)
		return t, nil
	}
	if err := p.openTokenKeys(t); err != nil {
		return nil, fmt.Errorf("keys of ServiceAccount tokens: %w", err)
	}
	source, keys := t.latest()
	if keys == nil {
		return nil, errors.New("keys of ServiceAccount tokens: there are none")
	}
	set, err := t.made(source, keys(), t.given)
	if err != nil {
		return nil, fmt.Errorf("keys of ServiceAccount tokens: %w", err)
	}
	t.current.Store(set)
	return t, nil
}

// openTokenKeys opens the server's own keys.
func (p *PKI) openTokenKeys(t *TokenKeys) error {
	path := filepath.Join(p.opts.DataDir, "pki", tokenKeysName+".key")
	if p.opts.Shared != nil {
		t.rows = p.opts.Shared
		return p.agreeOnTokenKeys(t.rows, path)
	}
	if err := p.inheritTokenKeys(path); err != nil {
		return err
	}
	if _, err := p.ownTokenKeys(path); err != nil {
		return err
	}
	file, err := newReloading(p.reloadOptions(), func(contents [][]byte) ([]any, error) { return parseTokenKeys(contents[0]) }, path)
	if err != nil {
		return err
	}
	t.file = file
	return nil
}

// ownTokenKeys reads the file of keys, which it creates if there is none.
func (p *PKI) ownTokenKeys(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if data, err = newTokenKey(); err != nil {
		return nil, err
	}
	p.opts.Logger.Info("made a key for ServiceAccount tokens")
	return data, writeFile(path, data, 0o600)
}

// newTokenKey creates a key, in PEM.
func newTokenKey() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return keyutil.MarshalPrivateKeyToPEM(key)
}

// parseTokenKeys reads keys; the first has to be private.
func parseTokenKeys(data []byte) (keys []any, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		text := pem.EncodeToMemory(block)
		if private, err := keyutil.ParsePrivateKeyPEM(text); err == nil {
			keys = append(keys, private)
			continue
		}
		if public, err := keyutil.ParsePublicKeysPEM(text); err == nil {
			keys = append(keys, public...)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in PEM")
	}
	if _, ok := keys[0].(crypto.Signer); !ok {
		return nil, errors.New("the first key is not a private one")
	}
	return keys, nil
}

func hasKey(keys []any, wanted any) bool {
	public, ok := publicOf(wanted).(interface{ Equal(crypto.PublicKey) bool })
	return ok && slices.ContainsFunc(keys, func(k any) bool { return public.Equal(publicOf(k)) })
}

func publicOf(key any) crypto.PublicKey {
	if s, ok := key.(crypto.Signer); ok {
		return s.Public()
	}
	return key
}

// made returns a state in which the first key signs.
func (t *TokenKeys) made(source any, keys, further []any) (*tokenKeySet, error) {
	generator, err := serviceaccount.JWTTokenGenerator(t.issuer, keys[0])
	if err != nil {
		return nil, err
	}
	legacy, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, keys[0])
	if err != nil {
		return nil, err
	}
	// Keys of files are published as they are given: in their order, with duplicates.
	var all []any
	for _, key := range keys {
		if !t.onlyGiven && !hasKey(all, key) && !hasKey(further, key) {
			all = append(all, publicOf(key))
		}
	}
	for _, key := range further {
		all = append(all, publicOf(key))
	}
	getter, err := serviceaccount.StaticPublicKeysGetter(all)
	if err != nil {
		return nil, err
	}
	return &tokenKeySet{source, getter, generator, legacy}, nil
}

// Refresh applies changed keys, and notifies the listeners. If the keys cannot be read, the present ones stay in force.
func (t *TokenKeys) Refresh() {
	if !t.refresh() {
		return
	}
	t.mu.Lock()
	listeners := slices.Clone(t.listeners)
	t.mu.Unlock()
	for _, l := range listeners {
		l.Enqueue() // it calls GetPublicKeys, without t.mu
	}
}

func (t *TokenKeys) refresh() (changed bool) {
	source, keys := t.latest()
	if known := t.current.Load(); source == nil || known != nil && known.source == source {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	found := keys()
	if len(found) == 0 {
		return false
	}
	set, err := t.made(source, found, t.given)
	if err != nil {
		return false
	}
	t.current.Store(set)
	return true
}

// latest returns the current source of the keys; nil when they do not change.
func (t *TokenKeys) latest() (source any, keys func() []any) {
	switch {
	case t.file != nil:
		now := t.file.get()
		return now, func() []any { return now.value }
	case t.rows != nil:
		// The read is from memory and does not wait, so it needs no context of a request.
		o, err := t.rows.Get(context.Background(), tokenKeysKey, resources.At{Match: resources.Any})
		if err != nil {
			return nil, nil
		}
		return o.Revision, func() []any {
			var shared sharedTokenKeys
			if err := resources.DecodeInternal(o, &shared); err != nil {
				return nil
			}
			parsed, _ := parseTokenKeys([]byte(shared.Keys)) // validated before it was written
			return parsed
		}
	}
	return nil, nil
}

// GenerateToken implements serviceaccount.TokenGenerator.
func (t *TokenKeys) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	t.Refresh()
	return t.current.Load().generator.GenerateToken(ctx, claims, private)
}

// AddListener implements serviceaccount.PublicKeysGetter.
func (t *TokenKeys) AddListener(l serviceaccount.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listeners = append(t.listeners, l)
}

// GetCacheAgeMaxSeconds implements serviceaccount.PublicKeysGetter.
func (t *TokenKeys) GetCacheAgeMaxSeconds() int { return int(tokenKeysAge.Seconds()) }

// GetPublicKeys implements serviceaccount.PublicKeysGetter.
func (t *TokenKeys) GetPublicKeys(ctx context.Context, keyID string) []serviceaccount.PublicKey {
	t.Refresh()
	return t.current.Load().getter.GetPublicKeys(ctx, keyID)
}

// State identifies the keys that are accepted now. It can be compared with ==.
func (t *TokenKeys) State() any {
	t.Refresh()
	return t.current.Load()
}

// Legacy returns the generator of tokens in Secrets, which have another issuer and do not expire.
func (t *TokenKeys) Legacy() serviceaccount.TokenGenerator { return legacyTokens{t} }

type legacyTokens struct{ *TokenKeys }

// GenerateToken implements serviceaccount.TokenGenerator.
func (t legacyTokens) GenerateToken(ctx context.Context, claims *jwt.Claims, private any) (string, error) {
	t.Refresh()
	return t.current.Load().legacy.GenerateToken(ctx, claims, private)
}
