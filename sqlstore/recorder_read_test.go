package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// A read of the object history is bounded in bytes, and reports that there is more; the reads that follow return the
// rest. At most recordedReads calls read at a time, and others wait as long as their callers do.
func TestObjectHistoryReadsAreBounded(t *testing.T) {
	withHistory(t, func(t *testing.T, open func(ObjectHistory) *Store, _ interface{ Step(time.Duration) }) {
		s := open(ObjectHistory{Age: 1 << 62})
		const rows, path = 2*recordedRows - 100, 16_000
		s.exec(t, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+strconv.Itoa(rows)+`)
INSERT INTO revisions (revision, at, size, op, resource, namespace, name, uid, fields, data)
SELECT i, 1, 1, 'update', 'widgets', 'shop', 'a', 'u', '["`+strings.Repeat("x", path)+`"]', 'x' FROM n`)
		var q resources.RevisionQuery
		next := int64(rows)
		for _, limit := range []int{3, 10_000, 0} {
			q.Limit = limit
			found, more, err := s.ObjectHistory(t.Context(), q)
			want := limit
			if limit != 3 {
				want = min(recordedBytes/path+1, int(next))
			}
			if err != nil || len(found) != want || more != (next > int64(want)) {
				t.Fatalf("limit %d after %d: %d writes, more: %v, %v; want %d", limit, next, len(found), more, err, want)
			}
			for _, r := range found {
				if r.Revision != next {
					t.Fatalf("revision %d in place of %d", r.Revision, next)
				}
				next--
			}
			q.Before = next + 1
		}
		if next != 0 {
			t.Errorf("%d writes were not returned", next)
		}
		for range recordedReads {
			s.recorder.reads <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := s.ObjectHistory(ctx, q); !errors.Is(err, context.Canceled) {
			t.Errorf("a read that waits for others: %v", err)
		}
		<-s.recorder.reads
		if _, _, err := s.ObjectHistory(t.Context(), resources.RevisionQuery{Revision: 1}); err != nil {
			t.Error(err)
		}
	})
}
