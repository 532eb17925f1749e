package pki

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// keyFileOf writes keys into a data directory.
func keyFileOf(t *testing.T, dir string, keys ...[]byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "pki", "sa.key"), slices.Concat(keys...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// exchangeKey makes a new key sign, and removes the former signing key.
func exchangeKey(t *testing.T, ring *KeyRing) {
	t.Helper()
	old, err := ring.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id, err := ring.Add(t.Context())
	if err == nil {
		err = ring.Sign(t.Context(), id)
	}
	if err == nil {
		err = ring.Remove(t.Context(), old[0].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// idsOf returns the IDs of the keys; the first one signs.
func idsOf(t *testing.T, ring *KeyRing) (ids []string) {
	t.Helper()
	keys, err := ring.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		ids = append(ids, key.ID)
	}
	return ids
}

func idOf(t *testing.T, key []byte) string {
	t.Helper()
	blocks, err := keyBlocks(key)
	if err != nil {
		t.Fatal(err)
	}
	return blocks[0].ID
}

// shareKeys writes a row with keys into a store.
func shareKeys(t *testing.T, store resources.Store, keys ...[]byte) {
	t.Helper()
	if _, err := resources.NewRows(store).Create(t.Context(), tokenKeysKey, "TokenKeys", sharedTokenKeys{Keys: string(slices.Concat(keys...))}, 0); err != nil {
		t.Fatal(err)
	}
}

// A key that one server removed from its file while it was alone on the store stays removed when servers share the store, even if another server,
// which has the key in its file, starts first or at the same time; and the last signing key is not lost.
func TestRemovedKeysStayAwayInAnyOrder(t *testing.T) {
	cluster, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	onPostgres := func(t *testing.T) *sqlstore.Store {
		t.Helper()
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: cluster.URL(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for name, open := range map[string]func(*testing.T) *sqlstore.Store{
		"SQLite": func(t *testing.T) *sqlstore.Store { t.Helper(); return sqlitetest.Open(t) }, "Postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			for _, together := range []bool{false, true} {
				here, elsewhere := t.TempDir(), t.TempDir()
				old := newKeyPEM(t)
				keyFileOf(t, here, old)
				keyFileOf(t, elsewhere, old)
				exchangeKey(t, NewKeyRing(here, nil))
				want := idsOf(t, NewKeyRing(here, nil))
				var group sync.WaitGroup
				for _, dir := range []string{elsewhere, here} {
					group.Go(func() { mustTokenKeys(t, openShared(t, dir, store, &bytes.Buffer{}), TokenKeyOptions{}) })
					if !together {
						group.Wait()
					}
				}
				group.Wait()
				ring := NewKeyRing("", resources.NewRows(store))
				kept, row, err := ring.read(t.Context())
				if err != nil || !slices.Equal(idsOf(t, ring), want) || !slices.Contains(kept.Removed, idOf(t, old)) {
					t.Errorf("together: %v, the keys are not those of the server that took one away: %v", together, err)
				}
				if !slices.Equal(idsOf(t, NewKeyRing(here, nil)), want) {
					t.Errorf("together: %v, its file has other keys", together)
				}
				if err := resources.NewRows(store).Delete(t.Context(), row); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A key that was removed from the file is also removed from a row that was left in the store, when servers share that again. All keys that are only
// in the row stay; without a file and without another key a new one is created.
func TestRemovedKeysOfRowThatStayed(t *testing.T) {
	a, b, c := newKeyPEM(t), newKeyPEM(t), newKeyPEM(t)
	store, dir := sqlitetest.Open(t), t.TempDir()
	shareKeys(t, store, b, a)
	keyFileOf(t, dir, c, b)
	opens := func(shared, left *resources.Rows) {
		t.Helper()
		mustTokenKeys(t, mustOpen(t, Options{DataDir: dir, Names: []string{"localhost"}, Shared: shared, Left: left}), TokenKeyOptions{})
	}
	rows := resources.NewRows(store)
	opens(nil, rows)
	if err := NewKeyRing(dir, nil).Remove(t.Context(), idOf(t, b)); err != nil {
		t.Fatal(err)
	}
	opens(rows, nil)
	if got, want := idsOf(t, NewKeyRing("", rows)), []string{idOf(t, c), idOf(t, a)}; !slices.Equal(got, want) {
		t.Errorf("the keys are %q instead of %q", got, want)
	}

	store, dir = sqlitetest.Open(t), t.TempDir()
	rows = resources.NewRows(store)
	shareKeys(t, store, a)
	keyFileOf(t, dir)
	path := filepath.Join(dir, "pki", "sa.key")
	if err := errors.Join(noteRemoved(path, []string{idOf(t, a)}), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	opens(rows, nil)
	if ids := idsOf(t, NewKeyRing("", rows)); len(ids) != 1 || ids[0] == idOf(t, a) {
		t.Errorf("the keys are %q", ids)
	}
}

// stubborn is a store that refuses to delete rows.
type stubborn struct{ resources.Store }

func (s stubborn) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	for _, w := range writes {
		if w.Op == resources.Delete {
			return nil, resources.ErrUnavailable
		}
	}
	return s.Store.Commit(ctx, writes...)
}

// A row that stays in the store is applied once: the next start does not revert later changes of the file.
func TestRowThatStaysIsFollowedOnce(t *testing.T) {
	a, b, c := newKeyPEM(t), newKeyPEM(t), newKeyPEM(t)
	sign := func(key []byte) func(*KeyRing) error {
		return func(ring *KeyRing) error { return ring.Sign(t.Context(), idOf(t, key)) }
	}
	remove := func(key []byte) func(*KeyRing) error {
		return func(ring *KeyRing) error { return ring.Remove(t.Context(), idOf(t, key)) }
	}
	for _, tc := range []struct {
		name      string
		row, file [][]byte
		changes   []func(*KeyRing) error
		want      [][]byte
		stays     bool // in the end
	}{
		{"a key is taken away", [][]byte{b, a}, [][]byte{a}, []func(*KeyRing) error{remove(a)}, [][]byte{b}, false},
		{"another one signs", [][]byte{b, a}, [][]byte{a}, []func(*KeyRing) error{sign(a)}, [][]byte{a, b}, false},
		{"the file had another key", [][]byte{a, b}, [][]byte{c, b}, []func(*KeyRing) error{sign(b), remove(c)}, [][]byte{b}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, dir := sqlitetest.Open(t), t.TempDir()
			shareKeys(t, store, tc.row...)
			keyFileOf(t, dir, tc.file...)
			start := func(store resources.Store) {
				t.Helper()
				mustTokenKeys(t, mustOpen(t, Options{DataDir: dir, Names: []string{"localhost"}, Left: resources.NewRows(store)}), TokenKeyOptions{})
			}
			start(stubborn{store})
			ring := NewKeyRing(dir, nil)
			for _, change := range tc.changes {
				if err := change(ring); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			for _, key := range tc.want {
				want = append(want, idOf(t, key))
			}
			for i, s := range []resources.Store{stubborn{store}, store, store} {
				if start(s); !slices.Equal(idsOf(t, ring), want) {
					t.Errorf("start %d has other keys", i)
				}
			}
			if _, err := store.Get(t.Context(), tokenKeysKey, resources.At{Match: resources.MostRecent}); tc.stays != (err == nil) {
				t.Error("of the row:", err)
			}
		})
	}
}

// If the data directory cannot be written, a server does not start with removed keys; it starts if the file has the right keys.
func TestTakenAwayWhereNothingCanBeWritten(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the longest path is Linux's")
	}
	// root can write anywhere, except where the names of temporary files are too long.
	dir := t.TempDir()
	const longest = 4095 - len("/sa.followed")
	for len(dir) < longest {
		n := min(200, longest-len(dir)-1)
		if rest := longest - len(dir) - 1 - n; rest == 1 {
			n-- // a slash alone is not a directory
		}
		dir += "/" + strings.Repeat("d", n)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a, b := newKeyPEM(t), newKeyPEM(t)
	path := filepath.Join(dir, "sa.key")
	for _, tc := range []struct {
		file  [][]byte
		fails bool
	}{{[][]byte{a, b}, true}, {[][]byte{b}, false}} {
		if err := os.WriteFile(path, slices.Concat(tc.file...), 0o600); err != nil {
			t.Fatal(err)
		}
		store := sqlitetest.Open(t)
		rows := resources.NewRows(store)
		if _, err := rows.Create(t.Context(), tokenKeysKey, "TokenKeys", sharedTokenKeys{Keys: string(b), Removed: []string{idOf(t, a)}}, 0); err != nil {
			t.Fatal(err)
		}
		p := &PKI{opts: Options{Left: rows, Logger: slog.New(slog.DiscardHandler)}}
		if err := p.inheritTokenKeys(path); tc.fails != (err != nil) {
			t.Errorf("with %d keys in the file: %v", len(tc.file), err)
		}
		if _, err := rows.Get(t.Context(), tokenKeysKey, resources.At{Match: resources.MostRecent}); err != nil {
			t.Error("the note of what was taken away is gone:", err)
		}
	}
}
