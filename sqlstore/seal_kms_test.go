package sqlstore

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/kmstest"
)

// After the key of a KMS plugin is rotated, rows encrypted with the old key can be read and are stale until they are
// rewritten, also in history; then the old key may be removed. If it is removed too early, those rows cannot be read,
// and all others can.
func TestKMSRotation(t *testing.T) {
	onBothSealed(t, nil, func(t *testing.T, on *sealedOn) {
		plugin := kmstest.New(t)
		reopen := func() *Store { // with a new transformer, which has no key cached
			t.Helper()
			return on.Reopen(transformers(t, "configmaps", kms(plugin)))
		}
		s := reopen()
		first := mustCommit(t, s, secret(t, "a", "1"))[0]
		a := mustCommit(t, s, updateSecret(t, first, "2"))[0]
		plugin.Rotate("2")
		s = reopen()
		b := mustCommit(t, s, secret(t, "b", "3"))[0]
		wantSecret(t, s, a.Key, a.Revision, "2")
		if !s.Stale(t.Context(), a) || s.Stale(t.Context(), b) {
			t.Error("what the key of before encrypted is stale, and nothing else")
		}

		forgotten := plugin.Forget("1")
		s = reopen()
		if _, err := s.Get(t.Context(), a.Key, resources.At{}); !errors.As(err, new(*resources.TransformError)) {
			t.Errorf("by a key that is gone: %v", err)
		}
		wantSecret(t, s, b.Key, b.Revision, "3")
		plugin.Remember("1", forgotten)
		wantSecret(t, s, a.Key, a.Revision, "2")

		inLog := int64(2)
		if !s.Shared() {
			inLog = 1 // the other row is the object
		}
		for _, want := range [][2]int64{{1, inLog}, {0, 0}} {
			done := mustRewrite(t, s)
			if got := [2]int64{done["objects"].Stale, done["changes"].Stale}; got != want {
				t.Errorf("rewrote %v rows, want %v", got, want)
			}
		}
		plugin.Forget("1")
		s = reopen()
		wantSecret(t, s, a.Key, a.Revision, "2")
		wantSecret(t, s, b.Key, b.Revision, "3")
		w, err := s.Watch(t.Context(), resources.WatchOptions{Resource: "configmaps", After: first.Revision - 1})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if events, _, err := w.Next(t.Context(), 10); err != nil || len(events) != 3 || events[1].Prev == nil {
			t.Errorf("of history: %d events, %v", len(events), err)
		}
	})
}
