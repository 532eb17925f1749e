package sqlstore

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/kmstest"
)

// wantUnreadable checks that a read failed because an object cannot be decrypted, with kube-apiserver's message.
func wantUnreadable(t *testing.T, what string, err error, text string) {
	t.Helper()
	var unreadable *resources.TransformError
	if !errors.As(err, &unreadable) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v, want a TransformError with %q", what, err, text)
	}
}

// An object that cannot be decrypted makes every read that would return it fail, and affects nothing else; once the key
// is available, it is readable again.
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

// A row that is sealed for one object cannot be read as another one: the object's key is bound to it.
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

// A KMS plugin that does not answer when a server starts is called again by later reads, and no restart is needed.
func TestPluginComesLater(t *testing.T) {
	plugin := kmstest.New(t)
	onBothSealed(t, transformers(t, "configmaps", kms(plugin)), func(t *testing.T, on *sealedOn) {
		made := mustCommit(t, on.Store, secret(t, "a", "1"), secret(t, "b", "2"))
		with := transformers(t, "configmaps", kms(plugin)) // a new transformer, with only its own key cached
		plugin.Stop()
		s := on.Reopen(with)
		_, err := s.Get(t.Context(), made[0].Key, resources.At{})
		wantUnreadable(t, "get", err, "failed to decrypt DEK")
		if a := s.Amount("configmaps"); a != (resources.Amount{Objects: 2}) {
			t.Errorf("the amount is %+v", a)
		}
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
		if a := s.Amount("configmaps"); a.Objects != 2 || a.AverageBytes != int64(len(made[0].Data)) {
			t.Errorf("the amount is %+v", a)
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

// serversWithKeys returns a function that opens servers of one Postgres database, each with its own providers for all
// resources.
func serversWithKeys(t *testing.T) (open func(providers ...string) *Store) {
	h := newPostgresHarness(t)
	return func(providers ...string) *Store {
		o := h.options()
		o.Transformers = transformers(t, "*.*", providers...)
		s := mustOpen(t, o)
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// Several servers on one database read what each of them has encrypted, whichever key each writes with.
func TestServersWithDifferentKeys(t *testing.T) {
	a, b := "aesgcm: {keys: ["+keyOf("a")+"]}", "secretbox: {keys: ["+keyOf("b")+"]}"
	open := serversWithKeys(t)
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

// An encoded value is text in any case, whatever the name of the key is.
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
