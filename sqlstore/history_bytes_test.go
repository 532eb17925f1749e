package sqlstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// changeAtRandom makes changes of objects of very different sizes, and returns their events.
func changeAtRandom(t *testing.T, s *Store, n int) (events []*resources.Event) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	present := map[string]*resources.Object{}
	for range n {
		name := fmt.Sprint("map-", random.IntN(8))
		was := present[name]
		w := largeMap(t, resources.Create, name, 0, []int{300, 20 << 10, 300 << 10, 700 << 10}[random.IntN(4)])
		switch {
		case was != nil && random.IntN(5) == 0:
			w = resources.Write{Op: resources.Delete, Key: w.Key, From: was.Revision}
		case was != nil:
			w.Op, w.From = resources.Update, was.Revision
		}
		made := mustCommit(t, s, w)[0]
		events = append(events, &resources.Event{Op: w.Op, Revision: made.Revision, Object: made, Prev: was})
		if present[name] = made; w.Op == resources.Delete {
			present[name] = nil
		}
	}
	return events
}

// wantHistory reads history page by page, and checks that it is the given events.
func wantHistory(t *testing.T, s *Store, q historyQuery, want []*resources.Event) {
	t.Helper()
	for q.after < q.upTo {
		page, err := s.db.history(testContext(t), q)
		if err != nil {
			t.Fatal(err)
		}
		if page.upTo <= q.after || page.upTo > q.upTo || len(page.events) > len(want) {
			t.Fatalf("the page after %d ends at %d, with %d events of %d", q.after, page.upTo, len(page.events), len(want))
		}
		for i, e := range page.events {
			w := want[i]
			if e.Op != w.Op || e.Revision != w.Revision || e.Object.Key != w.Object.Key || !bytes.Equal(e.Object.Data, w.Object.Data) {
				t.Fatalf("got %d of %s at %d, want %d of %s at %d", e.Op, e.Object.Key, e.Revision, w.Op, w.Object.Key, w.Revision)
			}
			if (e.Prev == nil) != (w.Prev == nil) || e.Prev != nil && (e.Prev.Revision != w.Prev.Revision || !bytes.Equal(e.Prev.Data, w.Prev.Data)) {
				t.Fatalf("%s at %d has another object before it", e.Object.Key, e.Revision)
			}
		}
		want = want[len(page.events):]
		if q.after = page.upTo; len(want) > 0 && want[0].Revision <= q.after {
			t.Fatalf("the page passes over the event at %d", want[0].Revision)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d events are missing", len(want))
	}
}

// Pages of history have every event, once and in order, wherever their bytes or their number ends them.
func TestHistoryPages(t *testing.T) {
	for name, s := range map[string]*Store{"SQLite": newSQLiteHarness(t).store, "Postgres": newPostgresHarness(t).store} {
		t.Run(name, func(t *testing.T) {
			start := s.revisions.current.Load()
			events := changeAtRandom(t, s, 60)
			end := s.revisions.current.Load()
			for _, limit := range []int{1, 7, historyPage} {
				for _, skipped := range []int{0, 1, 2, 11, 30} {
					q := historyQuery{resource: "configmaps", after: start + int64(skipped), upTo: end, limit: limit}
					wantHistory(t, s, q, events[skipped:])
				}
				var some []*resources.Event
				for _, e := range events {
					if e.Object.Name == "map-3" {
						some = append(some, e)
					}
				}
				wantHistory(t, s, historyQuery{resource: "configmaps", namespace: "default", name: "map-3", after: start, upTo: end, limit: limit}, some)
			}
		})
	}
}

// Postgres sends the objects of a page of history, and not those of all changes that the page could have.
func TestHistoryPagesAreSentInPart(t *testing.T) {
	c, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	network, err := pgtest.NewProxy(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	s := newPostgresHarnessAt(t, network.URL()).store
	const n, size, small = 40, 512 << 10, 300
	var creates []resources.Write
	for i := range n {
		creates = append(creates, largeMap(t, resources.Create, fmt.Sprint("map-", i), 0, size))
	}
	start := s.revisions.current.Load()
	made := mustCommit(t, s, creates...)
	for i, o := range made { // what is large is only the object before
		made[i] = mustCommit(t, s, largeMap(t, resources.Update, o.Name, o.Revision, small))[0]
	}
	for i, o := range made { // and here the object after
		made[i] = mustCommit(t, s, largeMap(t, resources.Update, o.Name, o.Revision, size))[0]
	}
	end := s.revisions.current.Load()
	for after := start; after < end; {
		before := network.Answered()
		page, err := s.db.history(testContext(t), historyQuery{resource: "configmaps", after: after, upTo: end, limit: historyPage})
		if err != nil {
			t.Fatal(err)
		}
		if sent := network.Answered() - before; sent > historyBytes+2*size {
			t.Errorf("%d bytes were sent for the %d events after %d", sent, len(page.events), after)
		}
		after = page.upTo
	}
}

// The changes of a page of history come from an index, in order, so that their bytes are added up without a sort.
func TestHistoryPlan(t *testing.T) {
	s := newPostgresHarness(t).store
	s.exec(t, `INSERT INTO changes (revision, at, size, op, resource, namespace, name, data)
SELECT i, 0, 1000, 'create', CASE i % 2 WHEN 0 THEN 'configmaps' ELSE 'pods' END, 'default', i::text, repeat('x', 1000) FROM generate_series(1000, 60000) AS i`)
	s.exec(t, "ANALYZE changes")
	var plan []string
	rows, err := s.db.reads.QueryContext(testContext(t), "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+selectHistoryHereSQL, "configmaps", 2000, 60000, "", "", historyPage, historyBytes)
	err = eachRow(rows, err)(func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		plan = append(plan, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(plan, "\n")
	if strings.Contains(all, "Sort") || strings.Contains(all, "Seq Scan on changes") {
		t.Error(all)
	}
}
