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

// keyOf is a key of 32 bytes as an EncryptionConfiguration has it.
func keyOf(name string) string {
	return fmt.Sprintf("{name: %s, secret: %s}", name, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name, 32)[:32])))
}

// encryptionFile is an EncryptionConfiguration for some resources, of which each provider is a line of YAML.
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

// transformers are those of such a configuration.
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

// providers are each of them, by name, as a line of YAML.
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

// secretMarker is what must not be found in the database, so no other test writes it in clear: a log that Postgres uses again still has it.
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
	// Another opens it for another server; nil: there can be but one.
	Another func(value.ResourceTransformers) *Store
	// Files is a folder with all files of the database.
	Files string
	// Prune takes all of history out.
	Prune func()
	// Later moves the clock.
	Later func(time.Duration)
}

// onBothSealed runs a test with a store in each database that encrypts.
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

// rawRows is all text that the tables have.
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

// filesWith are the files of a folder that have some text. Files that a database removes meanwhile have none.
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

// wantRevisionOf checks that an object is as it was written, with its fields.
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

// Whatever encrypts: nothing of an object is in the database, neither in objects nor in changes, in no column and in no file; and all of
// it can be read again, the past as well.
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
				rows := rawRows(t, s)
				if strings.Contains(rows, secretMarker) || strings.Count(rows, sealedPrefix) != 5 {
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

// filesOfPostgres are the files of the cluster that have some text, after all that is in its memory was written.
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

// wantUnreadable checks that a read failed since an object cannot be decrypted, in kube-apiserver's words.
func wantUnreadable(t *testing.T, what string, err error, text string) {
	t.Helper()
	var unreadable *resources.TransformError
	if !errors.As(err, &unreadable) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want a TransformError with %q", what, err, text)
	}
}

// What cannot be decrypted is answered with an error wherever it would be shown, and harms nothing else; once the key is there
// it is as it was.
func TestUnreadable(t *testing.T) {
	a, b := "aesgcm: {keys: ["+keyOf("a")+"]}", "aesgcm: {keys: ["+keyOf("b")+"]}"
	onBothSealed(t, transformers(t, "configmaps", a), func(t *testing.T, on *sealedOn) {
		made := mustCommit(t, on.Store, secret(t, "a", "1"), secret(t, "b", "2"))
		both := transformers(t, "configmaps", b, a)
		for with, text := range map[string]value.ResourceTransformers{
			"identity transformer tried to read encrypted data": nil,
			"no matching prefix found":                          transformers(t, "configmaps", "aescbc: {keys: ["+keyOf("a")+"]}"),
			"no matching key was found":                         transformers(t, "configmaps", b),
		} {
			s := on.Reopen(text)
			_, err := s.Get(t.Context(), made[0].Key, resources.At{})
			wantUnreadable(t, "get", err, with)
			for _, at := range []resources.At{{}, {Match: resources.Any}, {Match: resources.Exact, Revision: made[1].Revision}} {
				_, err = s.Snapshot(t.Context(), "configmaps", at)
				wantUnreadable(t, "list", err, `unable to transform key "/registry/configmaps/default/a": `+with)
			}
			_, err = s.Commit(t.Context(), updateSecret(t, made[0], "3"))
			wantUnreadable(t, "update", err, with)
			_, err = s.Commit(t.Context(), resources.Write{Op: resources.Delete, Key: made[0].Key, From: made[0].Revision})
			wantUnreadable(t, "delete", err, with)
			w, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: made[0].Revision - 1})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = w.Next(t.Context(), 10)
			wantUnreadable(t, "watch", err, with)
			w.Close()
			if s.Stale(t.Context(), made[0]) {
				t.Error("what cannot be read is stale")
			}
			other := createMap(t, "other")
			other.Key.Resource = "others"
			o := mustCommit(t, s, other)[0]
			if list, err := s.Snapshot(t.Context(), "others", resources.At{}); err != nil || list.Count("", "") != 1 {
				t.Errorf("of another type: %v", err)
			}
			s.DefragmentHeap(true, func(int) bool { return true })
			_, err = s.Get(t.Context(), made[1].Key, resources.At{})
			wantUnreadable(t, "get after defragmenting", err, with)
			mustCommit(t, s, resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision})
		}
		s := on.Reopen(both)
		wantSecret(t, s, made[0].Key, made[0].Revision, "1")
		wantSecret(t, s, made[1].Key, made[1].Revision, "2")
		if !s.Stale(t.Context(), made[0]) {
			t.Error("what is encrypted by the second key is not stale")
		}
	})
}

// What one key has is not to be read under another: the key is bound to it.
func TestSwappedRows(t *testing.T) {
	for name, provider := range map[string]string{"aesgcm": providers(t)["aesgcm"], "kms": providers(t)["kms"]} {
		t.Run(name, func(t *testing.T) {
			onBothSealed(t, transformers(t, "configmaps", provider), func(t *testing.T, on *sealedOn) {
				made := mustCommit(t, on.Store, secret(t, "a", "1"), secret(t, "b", "2"))
				if err := on.Store.onCommitter(func() error {
					return on.Store.db.rewrite([]boundStatement{{`UPDATE objects SET data = (SELECT data FROM objects WHERE name = 'a') WHERE name = 'b'`, nil}})
				}); err != nil {
					t.Fatal(err)
				}
				s := on.Reopen(on.Store.options.Transformers)
				wantSecret(t, s, made[0].Key, made[0].Revision, "1")
				_, err := s.Get(t.Context(), made[1].Key, resources.At{})
				wantUnreadable(t, "get", err, "")
			})
		})
	}
}

// A KMS plugin that does not answer when a server starts is asked again by those who want to read, and nothing has to be started again.
func TestPluginComesLater(t *testing.T) {
	plugin := kmstest.New(t)
	onBothSealed(t, transformers(t, "configmaps", kms(plugin)), func(t *testing.T, on *sealedOn) {
		made := mustCommit(t, on.Store, secret(t, "a", "1"), secret(t, "b", "2"))
		with := transformers(t, "configmaps", kms(plugin)) // which knows no key but its own
		plugin.Stop()
		s := on.Reopen(with)
		_, err := s.Get(t.Context(), made[0].Key, resources.At{})
		wantUnreadable(t, "get", err, "failed to decrypt DEK")
		_, err = s.Snapshot(t.Context(), "configmaps", resources.At{})
		wantUnreadable(t, "list", err, "failed to decrypt DEK")
		plugin.Start(t)
		list, err := s.Snapshot(t.Context(), "configmaps", resources.At{})
		for ; err != nil; list, err = s.Snapshot(t.Context(), "configmaps", resources.At{}) { // the connection comes back in a second
			wantUnreadable(t, "list again", err, "failed to decrypt DEK")
			if t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		if o := list.Get("default", "a"); o == nil || !bytes.Contains(o.Data, []byte(`"a":"1"`)) {
			t.Errorf("%+v", o)
		}
		wantSecret(t, s, made[1].Key, made[1].Revision, "2")
		before := plugin.Decrypted()
		next := mustCommit(t, s, updateSecret(t, made[0], "3"))[0]
		wantSecret(t, s, next.Key, next.Revision, "3")
		if now := plugin.Decrypted(); now != before {
			t.Errorf("it was asked %d times more", now-before)
		}
	})
}

// Several servers on one database read what each of them has encrypted, whichever key each writes with.
func TestServersWithDifferentKeys(t *testing.T) {
	a, b := "aesgcm: {keys: ["+keyOf("a")+"]}", "secretbox: {keys: ["+keyOf("b")+"]}"
	h := newPostgresHarness(t)
	open := func(with ...string) *Store {
		o := h.options()
		o.Transformers = transformers(t, "*.*", with...)
		s := mustOpen(t, o)
		t.Cleanup(func() { s.Close() })
		return s
	}
	first, second := open(a, b), open(b, a)
	w, err := second.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: second.revisions.current.Load()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	made := mustCommit(t, first, secret(t, "a", "1"))[0]
	<-w.Ready()
	events, _, err := w.Next(t.Context(), 10)
	if err != nil || len(events) != 1 || !bytes.Contains(events[0].Object.Data, []byte(`"a":"1"`)) {
		t.Fatalf("%d events, %v", len(events), err)
	}
	if first.Stale(t.Context(), made) || !second.Stale(t.Context(), made) {
		t.Error("it is stale for who does not write with the key, and for nobody else")
	}
	next := mustCommit(t, second, updateSecret(t, made, "2"))[0]
	wantSecret(t, first, next.Key, next.Revision, "2")
	if rows := rawRows(t, first); strings.Count(rows, sealedPrefix+"aesgcm") != 1 || strings.Count(rows, sealedPrefix+"secretbox") != 2 {
		t.Errorf("%.1000s", rows)
	}
}

// What is text is the same after all, whatever the name of the key is.
func TestEncodeSealed(t *testing.T) {
	for _, out := range []string{
		"k8s:enc:aesgcm:v1:key1:\x00\xff:\x01", "k8s:enc:aesgcm:v1:a:b:\x00", "k8s:enc:kms:v2:plugin:", "k8s:enc:", "k8s:enc:x",
		"k8s:enc:aesgcm:v1:k\xc3\xbc:\xff", "k8s:enc:aesgcm:v1:ü:", "k8s:enc:a:b:c\x00:d",
	} {
		text := encodeSealed([]byte(out))
		head := headOf(text)
		rest, err := base64.RawStdEncoding.DecodeString(text[len(head):])
		if err != nil || head+string(rest) != out || !isSealed(text) || !printable([]byte(text)) {
			t.Errorf("%q became %q, and that %q, %v", out, text, head+string(rest), err)
		}
	}
	s := &sealer{}
	for _, text := range []string{"k8s:enc:aesgcm:v1:a:%", "k8s:enc:\x00"} {
		if _, _, _, err := s.open(t.Context(), resources.Key{}, sealed{data: text}); !errors.Is(err, errNotSealed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
