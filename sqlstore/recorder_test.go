package sqlstore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// withHistory opens the store of a harness again with an object history.
func withHistory(t *testing.T, on func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) })) {
	onBoth(t, func(t *testing.T, h *eitherHarness) {
		on(t, func(history ObjectHistory) *Store {
			h.close(t)
			o := h.options()
			o.ObjectHistory = history
			return h.openWith(t, o)
		}, h.clock)
	})
}

// object returns a write of an object with a member.
func object(t testing.TB, resource, namespace, name, uid, member string) resources.Write {
	t.Helper()
	w := createMap(t, name)
	w.Key = resources.Key{Resource: resource, Namespace: namespace, Name: name}
	w.Draft.Data = bytes.Replace(w.Draft.Data, []byte(`"metadata":{`), []byte(member+`,"metadata":{"uid":"`+uid+`",`), 1)
	var ok bool
	if w.Draft.RevisionStart, w.Draft.RevisionEnd, ok = resources.RevisionSpan(w.Draft.Data); !ok {
		t.Fatal("no revision in " + string(w.Draft.Data))
	}
	return w
}

func update(w resources.Write, from *resources.Object) resources.Write {
	w.Op, w.From = resources.Update, from.Revision
	return w
}

func remove(o *resources.Object) resources.Write {
	return resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision}
}

// historyOf returns the writes in the history, after all were recorded, oldest first, as text.
func historyOf(t *testing.T, s *Store, q resources.RevisionQuery) (out []string) {
	t.Helper()
	if err := s.RecordHistory(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.Objects = true
	found, _, err := s.ObjectHistory(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range found {
		if r.At.IsZero() {
			t.Errorf("no time: %+v", r)
		}
		out = append([]string{fmt.Sprintf("%s %s %s %s %v", ops[r.Op], r.Key, r.UID, r.Author.User, r.Fields)}, out...)
	}
	return out
}

func wantHistoryOf(t *testing.T, s *Store, q resources.RevisionQuery, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, historyOf(t, s, q)); diff != "" {
		t.Errorf("%+v (-want +got):\n%s", q, diff)
	}
}

// Each write is recorded with its author, its changed paths, and the object before and after it; heartbeats, events,
// leases and Rowlock's own rows are not.
func TestObjectHistory(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		ann := sentBy(t, "ann", "", "create", "kubectl")
		commit := func(w resources.Write) *resources.Object {
			t.Helper()
			o, err := s.Commit(ann, w)
			if err != nil {
				t.Fatal(err)
			}
			return o[0]
		}
		a := commit(object(t, "widgets.example.com", "shop", "a", "u1", `"spec":{"size":1}`))
		a = commit(update(object(t, "widgets.example.com", "shop", "a", "u1", `"spec":{"size":2}`), a))
		commit(object(t, "events", "shop", "e", "u2", `"x":1`))
		commit(object(t, "leases.coordination.k8s.io", "shop", "l", "u3", `"x":1`))
		commit(object(t, "things.rowlock.internal", "", "i", "u4", `"x":1`))
		n := commit(object(t, "nodes", "", "n", "u5", `"status":{"lastHeartbeatTime":1,"ok":true}`))
		n = commit(update(object(t, "nodes", "", "n", "u5", `"status":{"lastHeartbeatTime":2,"ok":true}`), n))
		commit(update(object(t, "nodes", "", "n", "u5", `"status":{"lastHeartbeatTime":3,"ok":false}`), n))
		commit(remove(a))
		commit(object(t, "widgets.example.com", "shop", "a", "u6", `"spec":{"size":3}`))
		create, change := "create widgets.example.com/shop/a u1 ann []", "update widgets.example.com/shop/a u1 ann [spec.size]"
		gone, anew := "delete widgets.example.com/shop/a u1 ann []", "create widgets.example.com/shop/a u6 ann []"
		node := []string{"create nodes/n u5 ann []", "update nodes/n u5 ann [status.lastHeartbeatTime status.ok]"}
		wantHistoryOf(t, s, resources.RevisionQuery{}, create, change, node[0], node[1], gone, anew)
		wantHistoryOf(t, s, resources.RevisionQuery{Resource: "widgets.example.com", Namespace: "shop", Name: "a", UID: "u1"}, create, change, gone)
		wantHistoryOf(t, s, resources.RevisionQuery{Deleted: true}, gone)
		wantHistoryOf(t, s, resources.RevisionQuery{Clustered: true}, node...)
		wantHistoryOf(t, s, resources.RevisionQuery{Limit: 2}, gone, anew)
		wantHistoryOf(t, s, resources.RevisionQuery{Before: a.Revision + 1, Namespace: "shop"}, create, change)
		for _, none := range []string{"a\x00b", "\xff"} {
			wantHistoryOf(t, s, resources.RevisionQuery{Namespace: none})
			wantHistoryOf(t, s, resources.RevisionQuery{Namespace: "shop", Name: none})
			wantHistoryOf(t, s, resources.RevisionQuery{UID: none})
		}
		found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Revision: a.Revision, Objects: true})
		if err != nil || len(found) != 1 {
			t.Fatalf("%d, %v", len(found), err)
		}
		if r := found[0]; !strings.Contains(string(r.Before), `"size":1`) || !strings.Contains(string(r.After), `"size":2`) ||
			bytes.Contains(r.After, []byte("resourceVersion")) || r.Author.Agent != "kubectl" || r.Author.Verb != "create" {
			t.Errorf("%+v", r)
		}
		if at, err := s.RecordedAt(t.Context()); err != nil || at != s.revisions.current.Load() {
			t.Errorf("recorded at %d, %v", at, err)
		}
	})
}

// The first update of an object that existed before is recorded with the object before; a history that begins later
// takes what the log has.
func TestObjectHistoryOfWhatWasThere(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{})
		o := mustCommit(t, s, object(t, "widgets", "shop", "a", "u1", `"size":1`))[0]
		if err := s.RecordHistory(t.Context()); err != nil { // without an object history, it does nothing
			t.Fatal(err)
		}
		clock.Step(2 * storetest.HistoryAge)
		if _, err := s.janitor.prune(); err != nil {
			t.Fatal(err)
		}
		s = open(ObjectHistory{Age: time.Hour})
		mustCommit(t, s, update(object(t, "widgets", "shop", "a", "u1", `"size":2`), o))
		wantHistoryOf(t, s, resources.RevisionQuery{}, "update widgets/shop/a u1  [size]")
		found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
		if err != nil || !strings.Contains(string(found[0].Before), `"size":1`) {
			t.Errorf("%v, %v", found, err)
		}
	})
}

// The history is bounded: in the writes of each object, in the bytes of all writes, and in age.
func TestObjectHistoryIsBounded(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, clock interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour, Revisions: 3})
		change := func(o *resources.Object, from, to int) *resources.Object {
			for i := from; i <= to; i++ {
				w := object(t, "widgets", "shop", "a", "u1", fmt.Sprintf(`"size":%d`, i))
				if o != nil {
					w = update(w, o)
				}
				o = mustCommit(t, s, w)[0]
			}
			return o
		}
		o := change(nil, 1, 8)
		sizes := func() (out []string) {
			t.Helper()
			historyOf(t, s, resources.RevisionQuery{})
			found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range found {
				_, size, _ := strings.Cut(string(r.After), `"size":`)
				out = append(out, strings.FieldsFunc(size, func(r rune) bool { return r < '0' || r > '9' })[0])
			}
			return out
		}
		if diff := cmp.Diff([]string{"8", "7", "6"}, sizes()); diff != "" {
			t.Errorf("of 8, 3 are to be kept:\n%s", diff)
		}
		s = open(ObjectHistory{Age: time.Hour, Revisions: 2})
		o = change(o, 9, 9)
		clock.Step(40 * time.Minute)
		o = change(o, 10, 10)
		if diff := cmp.Diff([]string{"10", "9"}, sizes()); diff != "" {
			t.Errorf("of 10, 2 are to be kept:\n%s", diff)
		}
		clock.Step(30 * time.Minute)
		s.recordNow(t)
		if diff := cmp.Diff([]string{"10"}, sizes()); diff != "" {
			t.Errorf("what is older than an hour is to be forgotten:\n%s", diff)
		}
		s = open(ObjectHistory{Age: time.Hour, Revisions: 100, Size: 4096})
		change(o, 11, 110)
		if got := sizes(); len(got) < 2 || got[0] != "110" || len(got) >= 100 {
			t.Errorf("in 4 KiB: %v", got)
		}
		if bytes := s.recorder.bytes.Load(); bytes > 4096 {
			t.Errorf("%d bytes", bytes)
		}
		s.wantCounted(t)
	})
}

// recordNow makes a step of the recorder without a rest before it, whose length would depend on the duration of the
// previous step.
func (s *Store) recordNow(t *testing.T) {
	t.Helper()
	s.recorder.mu.Lock()
	s.recorder.notBefore = time.Time{}
	s.recorder.mu.Unlock()
	if _, err := s.janitor.record(); err != nil {
		t.Fatal(err)
	}
}

// wantCounted compares the size of the history with the counted one.
func (s *Store) wantCounted(t *testing.T) {
	t.Helper()
	var sum, counted int64
	if err := s.db.each(t.Context(), func(scan func(...any) error) error { return scan(&sum, &counted) },
		"SELECT (SELECT coalesce(CAST(sum(size) AS BIGINT), 0) FROM revisions), bytes FROM recording"); err != nil || sum != counted {
		t.Errorf("%d bytes, counted as %d, %v", sum, counted, err)
	}
}

// recordedMarker is a value to look for in the history. Objects contain it unencrypted, so shared files of a cluster
// may have it.
const recordedMarker = "the-recorded-marker"

// The history contains neither values of Secrets nor unencrypted data of objects that the table objects has encrypted;
// a rewrite encrypts the history, too.
func TestObjectHistoryHides(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		o := mustCommit(t, s, object(t, "secrets", "shop", "s", "u1", `"stringData":{"p":"`+recordedMarker+`"}`))[0]
		o = mustCommit(t, s, update(object(t, "secrets", "shop", "s", "u1", `"stringData":{"p":"other"}`), o))[0]
		mustCommit(t, s, update(object(t, "secrets", "shop", "s", "u1", `"stringData":{"p":"`+recordedMarker+`"}`), o))
		wantHistoryOf(t, s, resources.RevisionQuery{}, "create secrets/shop/s u1  []", "update secrets/shop/s u1  [stringData.p]", "update secrets/shop/s u1  [stringData.p]")
		found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			if bytes.Contains(r.After, []byte(recordedMarker)) || bytes.Contains(r.Before, []byte(recordedMarker)) || !bytes.Contains(r.After, []byte("hmac-sha256:")) {
				t.Errorf("%s", r.After)
			}
		}
		if !bytes.Equal(found[0].After, found[2].After) || bytes.Equal(found[0].After, found[1].After) {
			t.Error("the hashes do not tell which values are the same")
		}
		hidden := found[0].After
		s = open(ObjectHistory{Age: time.Hour, SecretValues: true})
		o = mustCommit(t, s, object(t, "secrets", "shop", "t", "u2", `"stringData":{"p":"`+recordedMarker+`"}`))[0]
		historyOf(t, s, resources.RevisionQuery{})
		if found, _, err = s.ObjectHistory(t.Context(), resources.RevisionQuery{Name: "t", Objects: true}); err != nil || !bytes.Contains(found[0].After, []byte(recordedMarker)) {
			t.Errorf("%v, %v", found, err)
		}
		s = open(ObjectHistory{Age: time.Hour})
		o = mustCommit(t, s, update(object(t, "secrets", "shop", "t", "u2", `"stringData":{"p":"other"}`), o))[0]
		mustCommit(t, s, update(object(t, "secrets", "shop", "t", "u2", `"stringData":{"p":"`+recordedMarker+`"}`), o))
		historyOf(t, s, resources.RevisionQuery{})
		again, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Name: "t", Objects: true})
		if err != nil || len(again) != 3 || bytes.Contains(again[2].After, []byte(recordedMarker)) || bytes.Contains(again[1].Before, []byte(recordedMarker)) {
			t.Fatalf("once the values are not kept any more, they are shown: %+v, %v", again, err)
		}
		if !bytes.Equal(again[0].After, again[2].After) {
			t.Errorf("the same value is hidden as %s and %s", again[0].After, again[2].After)
		}
		if found, _, err = s.ObjectHistory(t.Context(), resources.RevisionQuery{Name: "s", Objects: true}); err != nil || !bytes.Equal(found[0].After, hidden) {
			t.Errorf("what was hidden as %s is shown as %s, %v", hidden, found[0].After, err)
		}
	})
}

func TestObjectHistoryIsSealed(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour})
		with := func(v value.ResourceTransformers) { s.sealer.transformers = v }
		o := mustCommit(t, s, object(t, "configmaps", "shop", "a", "u1", `"data":{"`+recordedMarker+`":"1"}`))[0]
		historyOf(t, s, resources.RevisionQuery{})
		old := "aesgcm: {keys: [" + keyOf("a") + "]}"
		with(transformers(t, "configmaps", old, identityProvider))
		mustCommit(t, s, update(object(t, "configmaps", "shop", "a", "u1", `"data":{"`+recordedMarker+`":"2"}`), o))
		want := []string{"create configmaps/shop/a u1  []", "update configmaps/shop/a u1  [data." + recordedMarker + "]"}
		wantHistoryOf(t, s, resources.RevisionQuery{}, want...)
		s.wantSealed(t, 1)
		renewed := "aesgcm: {keys: [" + keyOf("b") + ", " + keyOf("a") + "]}"
		with(transformers(t, "configmaps", renewed, identityProvider))
		tables := map[string]int64{}
		if err := s.Rewrite(t.Context(), func(r Rewritten) { tables[r.Table] = r.Stale }); err != nil || tables["revisions"] != 2 {
			t.Errorf("%v, %v", tables, err)
		}
		s.wantSealed(t, 2)
		with(transformers(t, "configmaps", "aesgcm: {keys: ["+keyOf("b")+"]}"))
		wantHistoryOf(t, s, resources.RevisionQuery{}, want...)
		with(transformers(t, "configmaps", "aesgcm: {keys: ["+keyOf("c")+"]}"))
		found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{})
		if err != nil || len(found) != 2 || !found[0].Unreadable || found[0].Fields != nil {
			t.Errorf("without the key: %+v, %v", found, err)
		}
	})
}

// wantSealed checks how many revisions are encrypted, including their paths, and that the size of the history is theirs.
func (s *Store) wantSealed(t *testing.T, want int) {
	t.Helper()
	got := 0
	if err := s.db.each(t.Context(), func(scan func(...any) error) error {
		var data []byte
		var fields *string
		err := scan(&data, &fields)
		if isSealed(string(data)) && fields == nil {
			got++
		}
		return err
	}, "SELECT data, fields FROM revisions"); err != nil || got != want {
		t.Errorf("%d of the revisions are encrypted, want %d: %v", got, want, err)
	}
	var noted, sum, measured int64
	if err := s.db.each(t.Context(), func(scan func(...any) error) error { return scan(&noted, &sum, &measured) },
		`SELECT (SELECT bytes FROM recording), (SELECT sum(size) FROM revisions),
(SELECT sum($1 + length(data) + length(coalesce(fields, '')) + length(coalesce(author, '')) + 2 * length(namespace || name)) FROM revisions)`, rowBytes); err != nil ||
		noted != measured || sum != measured {
		t.Errorf("the size of the history is %d, and the rows say %d and take %d: %v", noted, sum, measured, err)
	}
}
