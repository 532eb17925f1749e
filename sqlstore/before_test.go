package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/storetest"
)

// numbered returns a write of an object that contains its previous revision and its number of changes.
func numbered(name string, n int64, from int64) resources.Write {
	w := resources.Write{Op: resources.Create, Key: configMap("default", name)}
	w.Draft.Data = fmt.Appendf(nil, `{"metadata":{"name":%q,"resourceVersion":"0"},"n":%d,"before":%d,"text":%q}`, name, n, from,
		strings.Repeat("0123456789", 20+int(n%100)))
	w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
	if from > 0 {
		w.Op, w.From = resources.Update, from
	}
	return w
}

// checkBefore checks that an event has the right object before it.
func checkBefore(e *resources.Event) error {
	if e.Op == resources.Create {
		return nil
	}
	if e.Prev == nil {
		return fmt.Errorf("%s at %d has no object before it", e.Object.Key, e.Revision)
	}
	now, before := gjson.ParseBytes(e.Object.Data), gjson.ParseBytes(e.Prev.Data)
	if e.Op == resources.Delete {
		if now.Get("n").Int() != before.Get("n").Int() {
			return fmt.Errorf("%s was deleted at %d as %s after %s", e.Object.Key, e.Revision, now, before)
		}
		return nil
	}
	if now.Get("n").Int() != before.Get("n").Int()+1 || now.Get("before").Int() != e.Prev.Revision ||
		before.Get("metadata.resourceVersion").Int() != e.Prev.Revision || before.Get("metadata.name").String() != e.Object.Name {
		return fmt.Errorf("%s became at %d %s after %s", e.Object.Key, e.Revision, now, before)
	}
	return nil
}

// checkLog checks that the table changes has exactly the rows that history needs, and that all of them are counted.
func checkLog(t *testing.T, s *Store) {
	t.Helper()
	last := "" // the rows that are objects
	if !s.Shared() {
		last = ` AND NOT EXISTS (SELECT 1 FROM current o WHERE o.revision = c.revision AND o.data = '')`
	}
	for what, query := range map[string]string{
		"updates without the object before": `SELECT count(*) FROM changes c, meta m WHERE c.revision > m.floor AND c.op = 'update'
AND c.prev_data IS NULL AND NOT EXISTS (SELECT 1 FROM changes b WHERE b.revision = c.prev_revision)`,
		"changes that nothing needs": `SELECT count(*) FROM changes c, meta m WHERE c.revision <= m.floor
AND NOT EXISTS (SELECT 1 FROM changes l WHERE l.revision > m.floor AND l.prev_revision = c.revision)` + last,
		"changes that are missing": `SELECT max(c.revision) - max(m.floor) - count(*) FROM changes c, meta m WHERE c.revision > m.floor`,
		"changes of another size": `SELECT count(*) FROM changes
WHERE size <> octet_length(data) + coalesce(octet_length(prev_data), 0)`,
	} {
		var n *int64
		if err := s.db.reads.QueryRow(query).Scan(&n); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if n != nil && *n != 0 {
			t.Errorf("%d %s", *n, what)
		}
	}
	var sum int64
	if err := s.db.reads.QueryRow("SELECT coalesce(sum(size), 0) FROM changes" + ofHistory(s)).Scan(&sum); err != nil {
		t.Fatal(err)
	}
	s.wantHistory(t, sum)
}

// ofHistory selects the changes whose size history counts.
func ofHistory(s *Store) string {
	if s.Shared() {
		return ""
	}
	return " WHERE revision > (SELECT floor FROM meta)"
}

// updateOften creates, changes and deletes objects of its own so many times, and returns at the first error.
func updateOften(s *Store, worker string, times int) error {
	objects := make([]*resources.Object, 4)
	for i := range times {
		at := i % len(objects)
		if i%3 == 0 {
			at = 0 // one object is changed more often than the others
		}
		name := fmt.Sprintf("%s-%d", worker, at)
		w := numbered(name, 0, 0)
		switch o := objects[at]; {
		case o != nil && i%11 == 10:
			w = resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision}
		case o != nil:
			w = numbered(name, gjson.GetBytes(o.Data, "n").Int()+1, o.Revision)
		}
		made, err := s.Commit(context.Background(), w)
		if err != nil {
			return err
		}
		if objects[at] = made[0]; w.Op == resources.Delete {
			objects[at] = nil
		}
	}
	return nil
}

// readHistory reads history from its beginning, from the tables, and returns how many updates it has seen before it was
// too late or at the end.
func readHistory(s *Store) (updates int, err error) {
	ctx := context.Background()
	w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: s.floor.Load()})
	if err != nil {
		return 0, ignoreExpired(err)
	}
	defer w.Close()
	for {
		events, _, err := w.Next(ctx, 50)
		if err != nil || len(events) == 0 {
			return updates, ignoreExpired(err)
		}
		for _, e := range events {
			if err := checkBefore(e); err != nil {
				return updates, err
			}
			if e.Op == resources.Update {
				updates++
			}
		}
	}
}

func ignoreExpired(err error) error {
	if errors.As(err, new(*resources.ExpiredError)) {
		return nil
	}
	return err
}

// Reads of history, while all servers write and prune it, return the right object before each update; history keeps its
// bound, and all rows that are kept for it are counted.
func TestObjectBeforeWhilePruned(t *testing.T) {
	const bound = 32 << 10
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		h.close(t)
		o := h.options()
		o.HistorySize, o.LogSize = bound, 1
		h.store = mustOpen(t, o)
		testObjectBeforeWhilePruned(t, bound, h.store)
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		o := h.options()
		o.HistorySize, o.LogSize = bound, 1
		var servers []*Store
		for range 2 {
			s := mustOpen(t, o)
			defer s.Close()
			servers = append(servers, s)
		}
		testObjectBeforeWhilePruned(t, bound, servers...)
	})
}

func testObjectBeforeWhilePruned(t *testing.T, bound int64, servers ...*Store) {
	const writers, times = 4, 150
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for i, s := range servers {
		s.catchUps.max = 0 // no page is kept
		for n := range writers {
			writing.Go(func() {
				if err := updateOften(s, fmt.Sprintf("%d-%d", i, n), times); err != nil {
					t.Error(err)
				}
				if n := s.historyBytes.Load(); len(servers) == 1 && n > bound {
					t.Errorf("history has %d bytes, its bound is %d", n, bound)
				}
			})
		}
		for range 2 {
			reading.Go(func() {
				seen := 0
				for ended := false; !ended || seen == 0; {
					select {
					case <-done:
						ended = true
					default:
					}
					n, err := readHistory(s)
					if err != nil {
						t.Error(err)
						return
					}
					seen += n
				}
			})
		}
	}
	writing.Wait()
	close(done)
	reading.Wait()
	for _, s := range servers {
		if _, err := s.janitor.prune(); err != nil { // a running prune ends before this
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		if s.peers != nil {
			if err := s.peers.catchUp(context.Background(), s.peers.db, 0); err != nil {
				t.Fatal(err)
			}
		}
		checkLog(t, s)
	}
}

// An update is stored with the object before it only if the log does not have that: in Postgres, if history begins after
// it; in SQLite, never.
func TestObjectBeforeIsStoredOnce(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		h := newSQLiteHarness(t)
		testObjectBeforeIsStoredOnce(t, h.store, func() { h.clock.Step(2 * storetest.HistoryAge); h.prune(t) })
	})
	t.Run("Postgres", func(t *testing.T) {
		h := newPostgresHarness(t)
		testObjectBeforeIsStoredOnce(t, h.store, func() { h.clock.Step(2 * storetest.HistoryAge); h.prune(t) })
	})
}

func testObjectBeforeIsStoredOnce(t *testing.T, s *Store, prune func()) {
	stored := func(o *resources.Object) (with bool) {
		t.Helper()
		if err := s.db.reads.QueryRow("SELECT prev_data IS NOT NULL FROM changes WHERE revision = $1", o.Revision).Scan(&with); err != nil {
			t.Fatal(err)
		}
		return with
	}
	o := mustCommit(t, s, numbered("a", 0, 0))[0]
	for n := int64(1); n < 4; n++ {
		if o = mustCommit(t, s, numbered("a", n, o.Revision))[0]; stored(o) {
			t.Errorf("update %d is stored with the object before", n)
		}
	}
	prune()
	if o = mustCommit(t, s, numbered("a", 4, o.Revision))[0]; stored(o) != s.Shared() {
		t.Errorf("the first update after history begins is stored with the object before: %t", !s.Shared())
	}
	if o = mustCommit(t, s, numbered("a", 5, o.Revision))[0]; stored(o) {
		t.Error("the second is stored with it")
	}
	checkLog(t, s)
}

// A database of an earlier release, which stored the object before with every update, can still be read and pruned.
func TestObjectBeforeOfEarlierRelease(t *testing.T) {
	h := newSQLiteHarness(t)
	const earlier = `UPDATE changes SET prev_data = (SELECT b.data FROM changes b WHERE b.revision = changes.prev_revision),
size = size + (SELECT octet_length(b.data) FROM changes b WHERE b.revision = changes.prev_revision) WHERE op = 'update' AND prev_data IS NULL`
	start := h.store.floor.Load()
	if err := updateOften(h.store, "old", 60); err != nil {
		t.Fatal(err)
	}
	h.store.exec(t, earlier)
	h.store.exec(t, "UPDATE meta SET history_bytes = (SELECT sum(size) FROM changes WHERE revision > floor)")
	h.close(t)
	h.open(t)
	if err := updateOften(h.store, "new", 60); err != nil {
		t.Fatal(err)
	}
	for floor := start; floor <= start+100; floor += 20 {
		h.onWriter(t, func() error {
			left, err := h.store.db.prune(floor)
			h.store.historyBytes.Store(left)
			return err
		})
		h.store.raiseFloor(floor)
		checkLog(t, h.store)
		h.close(t)
		h.open(t)
		if n, err := readHistory(h.store); err != nil || n == 0 {
			t.Errorf("from %d: %d updates, %v", floor, n, err)
		}
	}
}

// While servers of schema version 1 may be running, which need the object before in the update itself, it is stored
// with every update. Rows that they left below the floor are removed after that.
func TestObjectBeforeBesideTheVersionBefore(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	old := newOlder(ctx, t, h)
	if err := updateOften(h.store, "beside", 60); err != nil {
		t.Fatal(err)
	}
	without := func() (n int) {
		t.Helper()
		const count = "SELECT count(*) FROM changes WHERE op = 'update' AND prev_data IS NULL"
		if err := old.conn.QueryRow(ctx, count).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := without(); n != 0 {
		t.Errorf("%d updates are stored without the object before, which the version before cannot read", n)
	}
	const leave = `UPDATE meta SET floor = floor + 20, history_bytes = (SELECT sum(size) FROM changes WHERE revision > floor + 20)`
	if _, err := old.conn.Exec(ctx, leave); err != nil {
		t.Fatal(err)
	}
	pruneTen := func() {
		t.Helper()
		var floor int64
		if err := old.conn.QueryRow(ctx, "SELECT floor + 10 FROM meta").Scan(&floor); err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.peers.db.prune(floor); err != nil {
			t.Fatal(err)
		}
	}
	pruneTen() // as schema version 1 does it
	var below int
	if err := old.conn.QueryRow(ctx, "SELECT count(*) FROM changes c, meta m WHERE c.revision <= m.floor").Scan(&below); err != nil || below != 0 {
		t.Errorf("%d changes that the version before does not expect, %v", below, err)
	}
	if _, err := old.conn.Exec(ctx, "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	for range unseenBefore + 1 {
		h.store.peers.db.modernize()
	}
	if err := updateOften(h.store, "after", 60); err != nil {
		t.Fatal(err)
	}
	if without() == 0 {
		t.Error("every update is stored with the object before")
	}
	for _, also := range []int64{0, 15, 30, 30} {
		if _, err := h.store.peers.db.prune(h.store.floor.Load() + also); err != nil {
			t.Fatal(err)
		}
		h.close(t)
		h.store = h.open(t)
		checkLog(t, h.store)
		if n, err := readHistory(h.store); err != nil || n == 0 {
			t.Errorf("%d updates, %v", n, err)
		}
	}
}
