package sqlstore

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// wantUnread checks which objects the error of a list names.
func wantUnread(t *testing.T, s *Store, at resources.At, names ...string) {
	t.Helper()
	snapshot, err := s.Snapshot(t.Context(), "configmaps", at)
	if len(names) == 0 {
		if err != nil || snapshot.Count(at.Namespace, "") == 0 {
			t.Errorf("%+v: %v", at, err)
		}
		return
	}
	var all *resources.TransformError
	if !errors.As(err, &all) || !all.Among {
		t.Errorf("%+v: %v", at, err)
		return
	}
	found := []*resources.TransformError{all}
	for found = append(found, all.Others...); len(names) > 0 && len(found) > 0 && found[0].Key.Name == names[0]; found, names = found[1:], names[1:] {
	}
	if len(names) > 0 || len(found) > 0 {
		t.Errorf("%+v: %v of %v, beside %v", at, err, found, names)
	}
}

// An unreadable object does not prevent reads of other namespaces or names, now or in the past.
func TestUnreadableElsewhere(t *testing.T) {
	a, b := "aesgcm: {keys: ["+keyOf("a")+"]}", "aescbc: {keys: ["+keyOf("b")+"]}"
	onBothSealed(t, transformers(t, "configmaps", a), func(t *testing.T, on *sealedOn) {
		mustCommit(t, on.Store, secret(t, "a", "1"), secret(t, "b", "2"))
		s := on.Reopen(transformers(t, "configmaps", b))
		elsewhere := resources.Write{Op: resources.Create, Key: configMap("elsewhere", "a"), Draft: draft(t, "elsewhere", "a")}
		made := mustCommit(t, s, elsewhere, createMap(t, "c"))
		first := made[0].Revision
		mustCommit(t, s, deleteUnread(&resources.Object{Key: configMap("default", "a"), Revision: first - 2}, unreadable(t, s, configMap("default", "a"))))
		last := mustCommit(t, s, resources.Write{Op: resources.Update, Key: elsewhere.Key, From: first, Draft: draft(t, "elsewhere", "a")})[0].Revision
		for range 2 { // from the log in memory, and from the database alone
			for _, at := range []resources.At{{}, {Match: resources.Any}, {Match: resources.NotOlderThan, Revision: last}, {Match: resources.Exact, Revision: last}} {
				wantUnread(t, s, at, "b")
				at.Namespace = "elsewhere"
				wantUnread(t, s, at)
				at.Namespace, at.Name = "default", "c"
				wantUnread(t, s, at)
				at.Name = "b"
				wantUnread(t, s, at, "b")
			}
			past := resources.At{Match: resources.Exact, Revision: made[1].Revision}
			wantUnread(t, s, past, "a", "b")
			past.Namespace = "elsewhere"
			wantUnread(t, s, past)
			if s.pastCache.get(pastKey{"configmaps", past.Revision}) == nil {
				t.Error("each page of a list makes the state of then again")
			}
			past.Namespace = ""
			wantUnread(t, s, past, "a", "b")
			if s.pastCache.get(pastKey{"configmaps", past.Revision}) != nil {
				t.Error("a state is kept of which something was asked for that may be readable by now")
			}
			w, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", Namespace: "elsewhere", After: first - 3})
			if err != nil {
				t.Fatal(err)
			}
			if events, _, err := w.Next(t.Context(), 10); err != nil || len(events) != 2 || events[1].Revision != last {
				t.Errorf("a watch is told of %d events, %v", len(events), err)
			}
			w.Close()
			s = on.Reopen(transformers(t, "configmaps", b))
		}
		s = on.Reopen(transformers(t, "configmaps", a, b))
		wantUnread(t, s, resources.At{Match: resources.Exact, Revision: made[1].Revision})
	})
}
