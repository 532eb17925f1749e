package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// Keys that servers shared stay in use where one server has the database alone: the data directory gets the keys that it lacks, and the rows are
// deleted, so that they do not restore keys that are exchanged later. A data directory with other keys stays as it is, and so do the rows.
func TestLeftKeys(t *testing.T) {
	store := sqlitetest.Open(t)
	shared := t.TempDir()
	if _, err := openShared(t, shared, store, &bytes.Buffer{}).TokenKeys(TokenKeyOptions{Issuer: "https://x"}); err != nil {
		t.Fatal(err)
	}
	files := func(dir string) (content string) {
		t.Helper()
		for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.key", "sa.key"} {
			data, err := os.ReadFile(filepath.Join(dir, "pki", name))
			if err != nil {
				t.Fatal(err)
			}
			content += string(data)
		}
		return content
	}
	left := func() (n int) {
		t.Helper()
		for _, key := range []resources.Key{clientAuthority.key(), proxyAuthority.key(), tokenKeysKey} {
			if _, err := store.Get(t.Context(), key, resources.At{Match: resources.MostRecent}); err == nil {
				n++
			}
		}
		return n
	}
	alone := func(dir string, rows *resources.Rows) (log string) {
		t.Helper()
		var b bytes.Buffer
		p, err := Open(Options{DataDir: dir, Names: []string{"localhost"}, Left: rows, Logger: slog.New(slog.NewTextHandler(&b, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.TokenKeys(TokenKeyOptions{Issuer: "https://x"}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}

	another := t.TempDir()
	alone(another, nil)
	before := files(another)
	if log := alone(another, resources.NewRows(store)); files(another) != before || left() != 3 || strings.Count(log, "other keys") != 3 {
		t.Errorf("beside other keys: %d rows are left, and it said %s", left(), log)
	}

	spoiled := sqlitetest.Open(t)
	for _, key := range []resources.Key{clientAuthority.key(), proxyAuthority.key(), tokenKeysKey} {
		if _, err := resources.NewRows(spoiled).Create(t.Context(), key, "Spoiled", map[string]string{"key": "none"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if log := alone(another, resources.NewRows(spoiled)); files(another) != before || strings.Count(log, "cannot be read") != 3 {
		t.Errorf("beside rows that cannot be read: %s", log)
	}
	if _, err := Open(Options{DataDir: t.TempDir(), Names: []string{"localhost"}, Left: resources.NewRows(spoiled)}); err == nil {
		t.Error("where only the row has a key, and cannot be read, another one is made")
	}

	empty := t.TempDir()
	if alone(empty, resources.NewRows(store)); files(empty) != files(shared) || left() != 0 {
		t.Errorf("an empty data directory has other keys than those of the database, of which %d are left", left())
	}
}

// A removed key stays removed, wherever the store is moved: to one server that has the key in its file since its last start, and from there to
// servers that share the store again, one of which has the key in its file.
func TestRemovedKeysStayAway(t *testing.T) {
	here, elsewhere := t.TempDir(), t.TempDir()
	file := func(dir string) string { return filepath.Join(dir, "pki", "sa.key") }
	shares := func(dir string, store resources.Store) *TokenKeys {
		t.Helper()
		return mustTokenKeys(t, openShared(t, dir, store, &bytes.Buffer{}), TokenKeyOptions{})
	}
	alone := func(store resources.Store) *TokenKeys {
		t.Helper()
		return mustTokenKeys(t, mustOpen(t, Options{DataDir: here, Names: []string{"localhost"}, Left: resources.NewRows(store)}), TokenKeyOptions{})
	}
	// exchange replaces the key, and puts both keys into the file of elsewhere while the old one signs.
	exchange := func(ring *KeyRing) {
		t.Helper()
		old, err := ring.List(t.Context())
		if err != nil || len(old) != 1 {
			t.Fatal(old, err)
		}
		id, err := ring.Add(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		kept, _, err := ring.read(t.Context())
		if err == nil {
			err = errors.Join(writeFile(file(elsewhere), []byte(kept.Keys), 0o600), ring.Sign(t.Context(), id), ring.Remove(t.Context(), old[0].ID))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := sqlitetest.Open(t)
	token := signed(t, shares(here, first))
	shares(elsewhere, first)
	exchange(NewKeyRing("", resources.NewRows(first)))
	if err := writeFile(file(here), read(t, file(elsewhere)), 0o600); err != nil { // as if its server was started meanwhile
		t.Fatal(err)
	}
	if k := alone(first); accepts(t, k, token) {
		t.Error("one server has the key from its file")
	}
	second := sqlitetest.Open(t)
	k := shares(here, second)
	if accepts(t, shares(elsewhere, second), token) || accepts(t, k, token) {
		t.Error("servers that share the store have the key from the file of one of them")
	}

	// The key is removed by the server that is alone on its database.
	token = signed(t, alone(second))
	exchange(NewKeyRing(here, nil))
	third := sqlitetest.Open(t)
	k = shares(here, third)
	if accepts(t, shares(elsewhere, third), token) || accepts(t, k, token) {
		t.Error("servers that share the store have the key from the file of one of them, which was removed before that")
	}
	kept, _, err := NewKeyRing("", resources.NewRows(third)).read(t.Context())
	if err != nil || len(kept.Removed) != 2 {
		t.Errorf("%q were taken away, %v", kept.Removed, err)
	}
}

// A file that is older than the shared keys follows them; one with a key of its own keeps it, without removed keys.
func TestFilesBehindSharedKeys(t *testing.T) {
	ids := map[string]string{}
	text := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		data := newKeyPEM(t)
		blocks, err := keyBlocks(data)
		if err != nil {
			t.Fatal(err)
		}
		ids[name], text[name] = blocks[0].ID, string(data)
	}
	other, err := parseTokenKeys(newKeyPEM(t))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(publicOf(other[0]))
	if err != nil {
		t.Fatal(err)
	}
	text["p"] = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})) // of another signer
	keys := func(names string) (all string) {
		for _, name := range strings.Split(names, "") {
			all += text[name]
		}
		return all
	}
	for _, tc := range []struct {
		shared, removed, had, want string
		kept                       bool
	}{
		{"a", "", "a", "a", true},
		{"ba", "", "a", "ba", true},
		{"ba", "", "ab", "ba", true},
		{"b", "a", "ab", "b", true},
		{"b", "a", "a", "b", true},
		{"b", "a", "abc", "bc", true},
		{"b", "a", "ac", "c", false},
		{"a", "", "c", "c", false},
		{"a", "", "ca", "ca", true},
		{"b", "a", "apc", "cp", false},
		{"b", "a", "ap", "bp", true},
		{"bp", "a", "ap", "bp", true},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "sa.key")
		if err := writeFile(path, []byte(keys(tc.had)), 0o600); err != nil {
			t.Fatal(err)
		}
		p := &PKI{opts: Options{Logger: slog.New(slog.DiscardHandler)}}
		kept, err := p.follow(path, []byte(keys(tc.had)), &sharedTokenKeys{Keys: keys(tc.shared), Removed: []string{ids[tc.removed]}})
		if got := string(read(t, path)); err != nil || got != keys(tc.want) || kept != tc.kept {
			t.Errorf("%s over %s, without %s, is not %s: %v, %v", tc.shared, tc.had, tc.removed, tc.want, kept, err)
		}
	}
}
