package sqlstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/kmstest"
)

// keyOf returns a key of 32 bytes in the form of an EncryptionConfiguration.
func keyOf(name string) string {
	return fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32)[:32])))
}

// encryptionFile writes an EncryptionConfiguration for a resource; each provider is a line of YAML.
func encryptionFile(t testing.TB, resource string, providers ...string) string {
	t.Helper()
	text := "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: ['" + resource + "']\n  providers:\n"
	for _, p := range providers {
		text += "  - " + p + "\n"
	}
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// transformers returns the transformers of such a configuration.
func transformers(t testing.TB, resource string, providers ...string) value.ResourceTransformers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c, err := encryptionconfig.LoadEncryptionConfig(ctx, encryptionFile(t, resource, providers...), false, "test")
	if err != nil {
		t.Fatalf("%q: %v", providers, err)
	}
	return encryptionconfig.StaticTransformers(c.Transformers)
}

// providers returns all kinds of providers by name, each as a line of YAML.
func providers(t testing.TB) map[string]string {
	return map[string]string{
		"aesgcm":    "aesgcm: {keys: [" + keyOf("a") + "]}",
		"aescbc":    "aescbc: {keys: [" + keyOf("b") + "]}",
		"secretbox": "secretbox: {keys: [" + keyOf("c") + "]}",
		"kms":       kms(kmstest.New(t)),
	}
}

func kms(p *kmstest.Plugin) string {
	return "kms: {apiVersion: v2, name: plugin, timeout: 500ms, endpoint: '" + p.Endpoint + "'}"
}

const identityProvider = "identity: {}"

// secretMarker must not be found in the database. No other test writes it unencrypted, since logs that Postgres reuses
// keep old content.
const secretMarker = "the-secret-marker"

// secret is a write of a ConfigMap with the marker, also in its selectable fields.
func secret(t testing.TB, name, marker string) resources.Write {
	t.Helper()
	w := createMap(t, name)
	w.Draft.Data = bytes.Replace(w.Draft.Data, []byte(`"metadata":{`), []byte(`"data":{"a":"`+marker+`"},"metadata":{`), 1)
	shift := len(`"data":{"a":"` + marker + `"},`)
	w.Draft.RevisionStart, w.Draft.RevisionEnd = w.Draft.RevisionStart+shift, w.Draft.RevisionEnd+shift
	w.Draft.Fields = map[string]string{"data.a": marker}
	return w
}

func updateSecret(t testing.TB, o *resources.Object, marker string) resources.Write {
	w := secret(t, o.Name, marker)
	w.Op, w.From = resources.Update, o.Revision
	return w
}

// sealedOn is a store on one of the databases that can be opened with other transformers.
type sealedOn struct {
	Store *Store
	// Reopen opens the database again with other transformers, after closing it.
	Reopen func(value.ResourceTransformers) *Store
	// Another opens it for another server; nil: there can be only one.
	Another func(value.ResourceTransformers) *Store
	// Files is a folder with all files of the database.
	Files string
	// Prune removes all of history.
	Prune func()
	// Later moves the clock.
	Later func(time.Duration)
}

// onBothSealed runs a test with an encrypting store on each database.
func onBothSealed(t *testing.T, with value.ResourceTransformers, test func(t *testing.T, on *sealedOn)) {
	t.Run("SQLite", func(t *testing.T) {
		h := &sqliteHarness{path: filepath.Join(t.TempDir(), "rowlock.db"), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
		on := &sealedOn{Files: filepath.Dir(h.path)}
		open := func(with value.ResourceTransformers) *Store {
			o := h.options()
			o.Transformers = with
			on.Store = mustOpen(t, o)
			h.store = on.Store
			return on.Store
		}
		on.Reopen = func(with value.ResourceTransformers) *Store {
			h.close(t)
			return open(with)
		}
		on.Later = func(d time.Duration) { h.clock.Step(d) }
		on.Prune = func() { h.clock.Step(2 * h.options().HistoryAge); h.prune(t) }
		open(with)
		t.Cleanup(func() { h.close(t) })
		test(t, on)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		on := &sealedOn{}
		open := func(with value.ResourceTransformers) *Store {
			o := h.options()
			o.Transformers = with
			return mustOpen(t, o)
		}
		on.Reopen = func(with value.ResourceTransformers) *Store {
			h.close(t)
			h.store = open(with)
			on.Store = h.store
			return h.store
		}
		on.Another = func(with value.ResourceTransformers) *Store {
			s := open(with)
			t.Cleanup(func() { s.Close() })
			return s
		}
		on.Later = func(d time.Duration) { h.clock.Step(d) }
		on.Prune = func() { h.clock.Step(2 * h.options().HistoryAge); h.prune(t) }
		on.Reopen(with)
		test(t, on)
	})
}

// rawRows returns all text of the tables.
func rawRows(t *testing.T, s *Store) string {
	t.Helper()
	var all strings.Builder
	for _, statement := range []string{
		"SELECT coalesce(resource, '') || coalesce(namespace, '') || name || coalesce(fields, '') || data FROM objects",
		"SELECT name || coalesce(fields, '') || coalesce(prev_fields, '') || data || coalesce(prev_data, '') || coalesce(author, '') FROM changes",
	} {
		if err := s.db.each(t.Context(), func(scan func(...any) error) error {
			var row string
			err := scan(&row)
			all.WriteString(row + "\n")
			return err
		}, statement); err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// filesWith returns the files of a folder that contain a text. Files that the database removes meanwhile are ignored.
func filesWith(t *testing.T, dir, marker string) (found []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var content []byte
			content, err = os.ReadFile(path)
			if bytes.Contains(content, []byte(marker)) {
				found = append(found, path)
			}
		}
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// wantSecret checks that an object is as it was written, with its fields.
func wantSecret(t *testing.T, s *Store, key resources.Key, revision int64, marker string) {
	t.Helper()
	o, err := s.Get(t.Context(), key, resources.At{})
	if err != nil {
		t.Errorf("%s: %v", key, err)
		return
	}
	if o.Revision != revision || o.Fields["data.a"] != marker || !bytes.Contains(o.Data, []byte(marker)) ||
		!bytes.Contains(o.Data, fmt.Appendf(nil, `"resourceVersion":"%d"`, revision)) {
		t.Errorf("%s at %d: %s %v", key, o.Revision, o.Data, o.Fields)
	}
}

// With every provider, no part of an object is in the database unencrypted, neither in objects nor in changes, in no
// column and no file; and everything can be read again, also the past.
func TestNothingInClear(t *testing.T) {
	for name, provider := range providers(t) {
		t.Run(name, func(t *testing.T) {
			onBothSealed(t, transformers(t, "configmaps", provider), func(t *testing.T, on *sealedOn) {
				s := on.Store
				first := mustCommit(t, s, secret(t, "a", secretMarker+"1"), secret(t, "b", secretMarker+"2"))
				on.Prune() // so that the update is stored with the object before it
				second := mustCommit(t, s, updateSecret(t, first[0], secretMarker+"3"))[0]
				third := mustCommit(t, s, updateSecret(t, second, secretMarker+"4"))[0]
				gone := mustCommit(t, s, resources.Write{Op: resources.Delete, Key: first[1].Key, From: first[1].Revision})[0]
				rows, want := rawRows(t, s), 5
				if !s.Shared() {
					want = 6 // the object before the update is in the row of its own change, and so is the other object's
				}
				if strings.Contains(rows, secretMarker) || strings.Count(rows, sealedPrefix) != want {
					t.Errorf("the rows are %.1000s", rows)
				}
				wantHistory := func(s *Store) {
					answer, err := s.db.history(t.Context(), historyQuery{resource: "configmaps", after: first[1].Revision, upTo: gone.Revision, limit: 9})
					if err != nil || len(answer.events) != 3 {
						t.Fatalf("%d changes, %v", len(answer.events), err)
					}
					for i, want := range []string{"1", "3", "2"} {
						if prev := answer.events[i].Prev; !bytes.Contains(prev.Data, []byte(secretMarker+want)) || prev.Fields["data.a"] != secretMarker+want {
							t.Errorf("before change %d: %s %v", i, prev.Data, prev.Fields)
						}
					}
				}
				wantHistory(s)
				s = on.Reopen(s.options.Transformers)
				wantHistory(s)
				wantSecret(t, s, third.Key, third.Revision, secretMarker+"4")
				if _, err := s.Get(t.Context(), gone.Key, resources.At{}); !errors.Is(err, resources.ErrNotFound) {
					t.Errorf("of what was deleted: %v", err)
				}
				if on.Files != "" {
					if found := filesWith(t, on.Files, secretMarker); found != nil {
						t.Errorf("it is in %v", found)
					}
				} else if found := filesOfPostgres(t, secretMarker); found != nil {
					t.Errorf("it is in %v", found)
				}
				if s.Stale(t.Context(), third) {
					t.Error("what was just written is stale")
				}
			})
		})
	}
}

// filesOfPostgres returns the files of the cluster that contain a text, after a checkpoint.
func filesOfPostgres(t *testing.T, marker string) []string {
	t.Helper()
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var dir string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	return filesWith(t, dir, marker)
}
