package sqlstore

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rowlock/rowlock/resources"
)

// If the row of the table recording is lost, the object history continues after its last write, and each loss is logged
// once.
func TestObjectHistoryWithoutItsRow(t *testing.T) {
	for name, options := range map[string]func(*testing.T) Options{"SQLite": sqliteOptions, "Postgres": postgresOptions} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			o.ObjectHistory = ObjectHistory{Age: time.Hour}
			log := &strings.Builder{} // a handler writes a line at a time
			o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			s := mustOpen(t, o)
			const a, b, c = "create widgets/shop/a u1  []", "create widgets/shop/b u2  []", "create widgets/shop/c u3  []"
			mustCommit(t, s, object(t, "widgets", "shop", "a", "u1", `"size":1`))
			wantHistoryOf(t, s, resources.RevisionQuery{}, a)
			s.exec(t, "DELETE FROM recording")
			mustCommit(t, s, object(t, "widgets", "shop", "b", "u2", `"size":1`))
			for range 2 {
				wantHistoryOf(t, s, resources.RevisionQuery{}, a, b)
			}
			s.wantCounted(t)
			s.exec(t, "DELETE FROM recording")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, o) // a server without earlier state
			mustCommit(t, s, object(t, "widgets", "shop", "c", "u3", `"size":1`))
			wantHistoryOf(t, s, resources.RevisionQuery{}, a, b, c)
			s.wantCounted(t)
			if at, err := s.RecordedAt(t.Context()); err != nil || at != s.revisions.current.Load() {
				t.Errorf("recorded at %d, %v", at, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "a new row in the table recording"); n != 2 {
				t.Errorf("said %d times: %s", n, log)
			}
		})
	}
}

// A write that is larger than the whole history is recorded without its object, and earlier writes stay.
func TestObjectHistoryOfALargeObject(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour, Size: 4096})
		mustCommit(t, s, object(t, "widgets", "shop", "small", "u1", `"size":1`))
		random := make([]byte, 8192)
		_, _ = rand.NewChaCha8([32]byte{}).Read(random)
		incomplete := testutil.ToFloat64(s.recorder.metrics.incomplete)
		mustCommit(t, s, object(t, "widgets", "shop", "large", "u2", fmt.Sprintf(`"size":%q`, hex.EncodeToString(random))))
		wantHistoryOf(t, s, resources.RevisionQuery{}, "create widgets/shop/small u1  []", "create widgets/shop/large u2  []")
		found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
		if err != nil || len(found) != 2 || !found[0].Unreadable || found[0].After != nil || found[1].Unreadable || !strings.Contains(string(found[1].After), `"size":1`) {
			t.Errorf("%+v, %v", found, err)
		}
		if got := testutil.ToFloat64(s.recorder.metrics.incomplete); got != incomplete+1 {
			t.Errorf("%v incomplete, want %v", got, incomplete+1)
		}
		s.wantCounted(t)
	})
}

// A write that makes a large object small is recorded with the object after it, and without the one before: the small
// object can be restored.
func TestObjectHistoryOfALargeObjectThatShrinks(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: time.Hour, Size: 4096})
		random := make([]byte, 8192)
		_, _ = rand.NewChaCha8([32]byte{}).Read(random)
		large := mustCommit(t, s, object(t, "widgets", "shop", "w", "u1", fmt.Sprintf(`"size":%q`, hex.EncodeToString(random))))
		mustCommit(t, s, update(object(t, "widgets", "shop", "w", "u1", `"size":1`), large[0]))
		wantHistoryOf(t, s, resources.RevisionQuery{}, "create widgets/shop/w u1  []", "update widgets/shop/w u1  [size]")
		found, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Objects: true})
		if err != nil || len(found) != 2 || found[0].Unreadable || found[0].Before != nil || !strings.Contains(string(found[0].After), `"size":1`) || !found[1].Unreadable {
			t.Errorf("%+v, %v", found, err)
		}
		s.wantCounted(t)
	})
}
