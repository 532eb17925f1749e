package sqlstore

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// unreadable returns the error of reading an object.
func unreadable(t *testing.T, s *Store, key resources.Key) *resources.TransformError {
	t.Helper()
	_, err := s.Get(t.Context(), key, resources.At{})
	var why *resources.TransformError
	if !errors.As(err, &why) || why.Revision == 0 || why.Key != key {
		t.Fatalf("%s: %v", key, err)
	}
	return why
}

func deleteUnread(o *resources.Object, why *resources.TransformError) resources.Write {
	return resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision, Unread: why}
}

// An object that cannot be decrypted is deleted by a request that says so, and not by one for which that is wrong. The
// stored bytes go into history, where they can be read with the key again, and watches get an event.
func TestDeleteUnread(t *testing.T) {
	a, b := "aesgcm: {keys: ["+keyOf("a")+"]}", "aescbc: {keys: ["+keyOf("b")+"]}"
	onBothSealed(t, transformers(t, "configmaps", a), func(t *testing.T, on *sealedOn) {
		made := mustCommit(t, on.Store, secret(t, "a", "1"), secret(t, "b", "2"), secret(t, "c", "3"))
		if _, err := on.Store.Commit(t.Context(), deleteUnread(made[0], &resources.TransformError{})); !errors.Is(err, resources.ErrNotFound) {
			t.Errorf("of what can be read: %v", err)
		}
		s := on.Reopen(transformers(t, "configmaps", b))
		_, err := s.Snapshot(t.Context(), "configmaps", resources.At{})
		var all *resources.TransformError
		if !errors.As(err, &all) || !all.Among || all.Key != made[0].Key || len(all.Others) != 2 || all.Others[1].Key != made[2].Key {
			t.Errorf("a list says %v of %+v", err, all)
		}
		why := unreadable(t, s, made[0].Key)
		w, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: made[2].Revision})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for what, from := range map[string]int64{"before it": made[0].Revision - 1, "after it": made[2].Revision + 1} {
			d := deleteUnread(made[0], why)
			d.From = from
			if _, err := s.Commit(t.Context(), d); !errors.Is(err, resources.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		rows := rawRows(t, s)
		gone := mustCommit(t, s, deleteUnread(made[0], why))[0]
		if gone.Key != made[0].Key || gone.Revision <= made[2].Revision {
			t.Errorf("%s at %d", gone.Key, gone.Revision)
		}
		if _, err := s.Get(t.Context(), made[0].Key, resources.At{}); !errors.Is(err, resources.ErrNotFound) {
			t.Errorf("after its deletion: %v", err)
		}
		if _, err := s.Commit(t.Context(), deleteUnread(made[0], why)); !errors.Is(err, resources.ErrNotFound) {
			t.Errorf("once more: %v", err)
		}
		if now := rawRows(t, s); strings.Count(now, sealedPrefix) != strings.Count(rows, sealedPrefix) {
			t.Errorf("there was\n%.500s\nand is\n%.500s", rows, now) // one row less in objects, one more in changes
		}
		<-w.Ready()
		var deleted *resources.TransformError
		if _, _, err := w.Next(t.Context(), 10); !errors.As(err, &deleted) || !deleted.Deleted || deleted.Key != made[0].Key {
			t.Errorf("a watch is told %v", err)
		}
		again := mustCommit(t, s, secret(t, "a", "4"))[0]
		wantSecret(t, s, again.Key, again.Revision, "4")

		// With the key again, history has it, and readable objects stay.
		s = on.Reopen(transformers(t, "configmaps", a, b))
		wantSecret(t, s, made[1].Key, made[1].Revision, "2")
		if _, err := s.Commit(t.Context(), deleteUnread(made[1], why)); !errors.Is(err, resources.ErrNotFound) {
			t.Errorf("with the key: %v", err)
		}
		past, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: made[2].Revision})
		if err != nil {
			t.Fatal(err)
		}
		defer past.Close()
		events, _, err := past.Next(t.Context(), 1)
		if err != nil || len(events) != 1 || events[0].Op != resources.Delete || events[0].Revision != gone.Revision ||
			!bytes.Contains(events[0].Object.Data, []byte(`"a":"1"`)) || !showsRevision(events[0]) {
			t.Errorf("%d events of history, %v", len(events), err)
		}
	})
}

// An object that does not decode as its type is deleted as well; its bytes in history are encrypted if its resource is.
func TestDeleteUndecodable(t *testing.T) {
	onBothSealed(t, transformers(t, "configmaps", "aesgcm: {keys: ["+keyOf("a")+"]}"), func(t *testing.T, on *sealedOn) {
		w := createMap(t, "a")
		w.Draft = resources.Draft{Data: []byte(`{"no`)}
		made := mustCommit(t, on.Store, w)[0]
		why := &resources.TransformError{Key: made.Key, Revision: made.Revision, Err: errors.New("it is not"), Undecodable: true}
		mustCommit(t, on.Store, deleteUnread(made, why))
		if _, err := on.Store.Get(t.Context(), made.Key, resources.At{}); !errors.Is(err, resources.ErrNotFound) {
			t.Errorf("after its deletion: %v", err)
		}
		if rows := rawRows(t, on.Store); strings.Contains(rows, `{"no`) || strings.Count(rows, sealedPrefix) != 2 {
			t.Errorf("the database has %s", rows)
		}
	})
}

// A server that has the key returns objects that another one deleted without it.
func TestServersDeleteUnread(t *testing.T) {
	a, b := "aesgcm: {keys: ["+keyOf("a")+"]}", "aescbc: {keys: ["+keyOf("b")+"]}"
	open := serversWithKeys(t)
	knows := open(a)
	made := mustCommit(t, knows, secret(t, "a", "1"))[0]
	other := open(b)
	w, err := knows.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: made.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	mustCommit(t, other, deleteUnread(made, unreadable(t, other, made.Key)))
	<-w.Ready()
	events, _, err := w.Next(t.Context(), 10)
	if err != nil || len(events) != 1 || events[0].Op != resources.Delete || !bytes.Contains(events[0].Object.Data, []byte(`"a":"1"`)) || !showsRevision(events[0]) {
		t.Errorf("%d events, %v", len(events), err)
	}
}

// showsRevision reports whether the object of an event shows the event's revision, from which clients continue.
func showsRevision(e *resources.Event) bool {
	return bytes.Contains(e.Object.Data, []byte(`"resourceVersion":"`+resources.FormatRevision(e.Revision)+`"`))
}
