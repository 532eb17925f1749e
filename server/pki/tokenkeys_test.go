package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/client-go/util/keyutil"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

func mustTokenKeys(t *testing.T, p *PKI, o TokenKeyOptions) *TokenKeys {
	t.Helper()
	o.Issuer = "issuer"
	k, err := p.TokenKeys(o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signed returns a token that is signed by the present signing key.
func signed(t *testing.T, k *TokenKeys) string {
	t.Helper()
	token, err := k.GenerateToken(t.Context(), &jwt.Claims{Subject: "me"}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// accepts tells whether the signature of a token is accepted.
func accepts(t *testing.T, k *TokenKeys, token string) bool {
	t.Helper()
	parsed, err := jwt.ParseSigned(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range k.GetPublicKeys(t.Context(), parsed.Headers[0].KeyID) {
		if parsed.Claims(key.PublicKey, &jwt.Claims{}) == nil {
			return true
		}
	}
	return false
}

func newKeyPEM(t *testing.T) []byte {
	t.Helper()
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type listener func()

func (l listener) Enqueue() { l() }

// A key is created once. A key that is put before it signs from then on, and tokens of the older one stay valid until it is
// removed; listeners are notified of each change.
func TestTokenKeysAreExchanged(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	p := mustOpen(t, testOptions(dir, c))
	k := mustTokenKeys(t, p, TokenKeyOptions{})
	told := 0
	k.AddListener(listener(func() { told++ }))
	path := filepath.Join(dir, "pki", "sa.key")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	first := signed(t, k)
	again := mustTokenKeys(t, mustOpen(t, testOptions(dir, c)), TokenKeyOptions{})
	if !accepts(t, again, first) || !accepts(t, k, first) {
		t.Error("a restart made another key")
	}
	write := func(data []byte) {
		t.Helper()
		if err := writeFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c.advance(2 * time.Second)
	}
	old, second := read(t, path), newKeyPEM(t)
	write(append(bytes.Clone(second), old...))
	newer := signed(t, k)
	if told != 1 || !accepts(t, k, first) || !accepts(t, k, newer) {
		t.Errorf("after a key was added: told %d times", told)
	}
	write(second)
	if accepts(t, k, first) || !accepts(t, k, newer) || told != 2 {
		t.Errorf("after the old key was taken away: told %d times", told)
	}
	write([]byte("garbage"))
	if !accepts(t, k, newer) {
		t.Error("a file that cannot be read took the keys away")
	}
	if _, err := mustOpen(t, testOptions(dir, c)).TokenKeys(TokenKeyOptions{Issuer: "issuer"}); err == nil {
		t.Error("garbage is taken at a start")
	}
}

// Servers on one database have the same keys. A file with a new key before the signing one is adopted by all.
func TestSharedTokenKeys(t *testing.T) {
	store := sqlitetest.Open(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	servers := make([]*TokenKeys, len(dirs))
	var together sync.WaitGroup
	for i, dir := range dirs {
		together.Go(func() { servers[i] = mustTokenKeys(t, openShared(t, dir, store, &bytes.Buffer{}), TokenKeyOptions{}) })
	}
	together.Wait()
	first := signed(t, servers[0])
	for i := range servers {
		if !accepts(t, servers[i], first) {
			t.Errorf("server %d does not know the key", i)
		}
	}
	// A server with a key of its own adopts the shared ones.
	other := t.TempDir()
	mustTokenKeys(t, mustOpen(t, testOptions(other, newClock())), TokenKeyOptions{})
	var log bytes.Buffer
	if k := mustTokenKeys(t, openShared(t, other, store, &log), TokenKeyOptions{}); !accepts(t, k, first) || !strings.Contains(log.String(), "take the place of those") {
		t.Errorf("another server's key is used, said %q", log.String())
	}
	// The key is exchanged in the file of one server, which then restarts.
	path := filepath.Join(dirs[1], "pki", "sa.key")
	if err := writeFile(path, append(newKeyPEM(t), read(t, path)...), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := signed(t, mustTokenKeys(t, openShared(t, dirs[1], store, &log), TokenKeyOptions{}))
	if !accepts(t, servers[0], newer) || !accepts(t, servers[0], first) {
		t.Error("the other server does not know the new key")
	}
	if third := signed(t, servers[2]); !accepts(t, mustTokenKeys(t, openShared(t, dirs[0], store, &log), TokenKeyOptions{}), third) {
		t.Error("a server that runs signs with a key that a new one does not know")
	}
	row, err := resources.NewRows(store).Get(t.Context(), tokenKeysKey, resources.At{Match: resources.MostRecent})
	if err != nil || !bytes.Contains(row.Data, []byte("PRIVATE KEY")) {
		t.Error(row, err)
	}
}

// Of the user's files, one signs, and the others verify.
func TestGivenTokenKeys(t *testing.T) {
	dir := t.TempDir()
	p := mustOpen(t, testOptions(dir, newClock()))
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	data, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	signing, other := filepath.Join(dir, "signing.key"), filepath.Join(dir, "other.key")
	if err := os.WriteFile(signing, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, newKeyPEM(t), 0o600); err != nil {
		t.Fatal(err)
	}
	given := mustTokenKeys(t, p, TokenKeyOptions{SigningKeyFile: signing})
	if _, err := os.Stat(filepath.Join(dir, "pki", "sa.key")); err == nil {
		t.Error("a key was made that nobody wants")
	}
	own := mustTokenKeys(t, p, TokenKeyOptions{KeyFiles: []string{signing, other}})
	if n := len(own.GetPublicKeys(t.Context(), "")); n != 3 {
		t.Errorf("%d keys are published", n)
	}
	if !accepts(t, given, signed(t, given)) || !accepts(t, own, signed(t, given)) || accepts(t, given, signed(t, own)) {
		t.Error("not the keys that were given")
	}
	for _, o := range []TokenKeyOptions{{SigningKeyFile: "/nonexistent"}, {KeyFiles: []string{"/nonexistent"}}} {
		if _, err := p.TokenKeys(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// Keys of files are published as in kube-apiserver: in their order, with those of certificates, and with duplicates. The signing key comes
// first if it is not among them. If it has to be among them and is not, the log says that its tokens are refused.
func TestPublishedTokenKeys(t *testing.T) {
	dir := t.TempDir()
	options, log := testOptions(dir, newClock()), &bytes.Buffer{}
	options.Logger = slog.New(slog.NewTextHandler(log, nil))
	p := mustOpen(t, options)
	file := func(name string, contents ...[]byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Join(contents, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b, signing := newKeyPEM(t), newKeyPEM(t), newKeyPEM(t)
	two, signs, all := file("two", b, a), file("signs", signing), file("all", a, signing)
	published := func(o TokenKeyOptions) (ids []string) {
		for _, k := range mustTokenKeys(t, p, o).GetPublicKeys(t.Context(), "") {
			ids = append(ids, k.KeyID)
		}
		return ids
	}
	id := func(file string) string { return published(TokenKeyOptions{SigningKeyFile: file})[0] }
	first, second, third := id(file("a", a)), id(file("b", b)), id(signs)
	for _, c := range []struct {
		files []string
		only  bool
		want  []string
	}{
		{nil, true, []string{third}},
		{[]string{two}, false, []string{third, second, first}},
		{[]string{two}, true, []string{second, first}},
		{[]string{two, all}, false, []string{second, first, first, third}},
		{[]string{two, all}, true, []string{second, first, first, third}},
		{[]string{file("certificate", read(t, filepath.Join(dir, "pki", "ca.crt"))), all}, true, []string{id(filepath.Join(dir, "pki", "ca.key")), first, third}},
	} {
		o := TokenKeyOptions{SigningKeyFile: signs, KeyFiles: c.files, OnlyKeyFiles: c.only}
		log.Reset()
		if got := published(o); !slices.Equal(got, c.want) {
			t.Errorf("%v, only these: %t: %v, want %v", c.files, c.only, got, c.want)
		}
		if warned := strings.Contains(log.String(), "and refused"); warned == slices.Contains(c.want, third) {
			t.Errorf("%v, only these: %t: the log says %q", c.files, c.only, log)
		}
	}
}
