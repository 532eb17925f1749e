package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
)

// connect opens a connection that uses a harness's tables.
func (h *postgresHarness) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	return admin(t, h.url+"&search_path="+strings.ReplaceAll(`"`+h.schema+`"`, " ", "%20"))
}

// older acts as a server of schema version 1, which keeps the counter in meta, as far as other servers notice it.
type older struct{ conn *pgx.Conn }

// newOlder makes the tables what they are right after the step to version 2.
func newOlder(ctx context.Context, t *testing.T, h *postgresHarness) *older {
	t.Helper()
	o := &older{h.connect(t)}
	if _, err := o.conn.Exec(ctx, "SELECT pg_advisory_lock($1, 7)", h.store.Session().class); err != nil {
		t.Fatal(err)
	}
	if _, err := o.conn.Exec(ctx, "UPDATE meta m SET revision = "+counterSQL+", history_bytes = "+historyBytesSQL); err != nil {
		t.Fatal(err)
	}
	return o
}

// write commits a write as such a server did.
func (o *older) write(ctx context.Context, name string) (revision int64, err error) {
	tx, err := o.conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it has ended
	if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()::text FROM meta FOR UPDATE"); err != nil {
		return 0, err
	}
	if err := tx.QueryRow(ctx, "SELECT revision FROM meta").Scan(&revision); err != nil {
		return 0, err
	}
	revision++
	const data = `{"metadata":{"resourceVersion":"0"}}`
	if _, err := tx.Exec(ctx, `INSERT INTO changes (revision, at, size, op, resource, namespace, name, data)
VALUES ($1, 1, $2, 'create', 'configmaps', 'default', $3, $4)`, revision, len(data), name, data); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO objects (resource, namespace, name, revision, data) VALUES ('configmaps', 'default', $1, $2, $3)`,
		name, revision, data); err != nil {
		return 0, err
	}
	if _, err := tx.Exec(ctx, "UPDATE meta SET revision = $1, history_bytes = history_bytes + $2 WHERE revision = $3", revision,
		len(data), revision-1); err != nil {
		return 0, err
	}
	return revision, tx.Commit(ctx)
}

// Servers of schema version 1 and of this one write side by side: no revision is assigned twice or left out, and each
// reads at most recent the other's writes. When the last old server has ended, the counter moves to the log; an old
// server that starts after that gets no revision.
func TestBesideTheVersionBefore(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	servers := []*Store{h.store, h.openPeer(t)}
	first := mustCommit(t, h.store, createMap(t, "first"))[0].Revision
	old := newOlder(ctx, t, h)
	watches := make([]resources.Watch, len(servers))
	for i, s := range servers {
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		watches[i] = w
	}
	const rounds = 60
	var wg sync.WaitGroup
	for i, s := range servers {
		for n := range rounds {
			wg.Go(func() { mustCommit(t, s, createMap(t, "new-"+strconv.Itoa(i)+"-"+strconv.Itoa(n))) })
		}
	}
	wg.Go(func() {
		for n := range rounds {
			name := "old-" + strconv.Itoa(n)
			revision, err := old.write(ctx, name)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := servers[n%2].Get(ctx, configMap("default", name), resources.At{}); err != nil || got.Revision != revision {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			if servers[0].peers.db.modernize(); n == 0 { // the old server is still there
				servers[0].peers.db.modernize()
			}
		}
	})
	wg.Wait()
	var sum, counted, legacy int64
	look := func() {
		t.Helper()
		if err := old.conn.QueryRow(ctx, "SELECT (SELECT sum(size) FROM changes WHERE revision > m.floor), "+historyBytesSQL+
			", coalesce(m.revision, 0) FROM meta m").Scan(&sum, &counted, &legacy); err != nil {
			t.Fatal(err)
		}
		if sum != counted {
			t.Errorf("history has %d bytes, counted %d", sum, counted)
		}
	}
	if look(); legacy != first+3*rounds {
		t.Errorf("what the version before reads is %d, want %d", legacy, first+3*rounds)
	}
	if _, err := old.conn.Exec(ctx, "SELECT pg_advisory_unlock_all()"); err != nil {
		t.Fatal(err)
	}
	for range unseenBefore + 1 {
		servers[0].peers.db.modernize()
	}
	if look(); legacy != 0 {
		t.Errorf("the counter is still in meta: %d", legacy)
	}
	if revision, err := old.write(ctx, "late"); err == nil {
		t.Errorf("a server of the version before was given revision %d", revision)
	}
	mustCommit(t, servers[1], createMap(t, "end"))
	look()
	for i, w := range watches {
		events := collect(ctx, t, w, "end")
		if len(events) != 3*rounds+1 {
			t.Errorf("server %d: %d events", i, len(events))
		}
		for j, e := range events {
			if e.Revision != first+int64(j)+1 {
				t.Fatalf("server %d: event %d has revision %d", i, j, e.Revision)
			}
		}
	}
}

// Writes do not all update one common row, so a long snapshot does not make them ever slower. The counter survives that
// all of the log is pruned.
func TestLogCounts(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	conn := h.connect(t)
	version := func() (ctid string) {
		t.Helper()
		if err := conn.QueryRow(ctx, "SELECT ctid::text FROM meta").Scan(&ctid); err != nil {
			t.Fatal(err)
		}
		return ctid
	}
	before := version()
	var last *resources.Object
	for i := range 20 {
		last = mustCommit(t, h.store, createMap(t, strconv.Itoa(i)))[0]
	}
	if after := version(); after != before {
		t.Errorf("the row of meta has a new version at %s, it was at %s", after, before)
	}
	next := last.Revision
	for range 3 {
		h.clock.Step(2 * h.store.options.HistoryAge)
		h.prune(t)
		var left int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM changes").Scan(&left); err != nil || left != 0 {
			t.Fatalf("%d changes are left, %v", left, err)
		}
		if got, err := h.store.peers.db.counter(ctx); err != nil || got != next {
			t.Errorf("the counter is %d, want %d, %v", got, next, err)
		}
		h.store.wantHistory(t, 0)
		h.close(t)
		h.store = h.open(t)
		next++
		made := mustCommit(t, h.store, createMap(t, "after-"+strconv.FormatInt(next, 10)))[0]
		if made.Revision != next {
			t.Errorf("revision %d, want %d", made.Revision, next)
		}
		var size int64
		if err := conn.QueryRow(ctx, "SELECT size FROM changes").Scan(&size); err != nil {
			t.Fatal(err)
		}
		h.store.wantHistory(t, size)
	}
}

// The periodic look reads nothing of other control planes, which may have many locks and connections.
func TestLookIsOfThisPlane(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	conn := h.connect(t)
	rows, err := conn.Query(ctx, "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) "+lookSQL, h.store.Session().class, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	scans := 0
	for _, line := range lines {
		if !strings.Contains(line, "Scan") || strings.Contains(line, "never executed") {
			continue
		}
		scans++
		for _, grows := range []string{"pg_lock", "pg_stat", "pg_database"} {
			if strings.Contains(line, grows) {
				t.Errorf("it reads %s", line)
			}
		}
	}
	if scans == 0 {
		t.Errorf("no scans in %q", lines)
	}
}

// No notification is sent if no other server listens. A server that begins to listen misses nothing from then on, and
// notifications stop when the last listener has ended, in whatever way.
func TestNotifiesWhoListens(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	sees(t, h.store, 1)
	conn := h.connect(t)
	if _, err := conn.Exec(ctx, "LISTEN "+h.store.peers.db.channel); err != nil {
		t.Fatal(err)
	}
	next := func() int64 {
		t.Helper()
		for {
			n, err := conn.WaitForNotification(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if revision, err := strconv.ParseInt(n.Payload, 10, 64); err == nil {
				return revision
			}
		}
	}
	for i := range 5 {
		mustCommit(t, h.store, createMap(t, "alone-"+strconv.Itoa(i)))
	}
	other := h.open(t)
	sees(t, other, 2)
	heard := mustCommit(t, h.store, createMap(t, "heard"))[0]
	if got := next(); got != heard.Revision {
		t.Errorf("the first notification is of revision %d, want %d", got, heard.Revision)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.store, createMap(t, "alone"))
	if _, err := conn.Exec(ctx, "INSERT INTO servers (id, pid) VALUES (7, 7)"); err != nil { // a server that was killed
		t.Fatal(err)
	}
	sees(t, h.store, 1)
	h.store.Session().summon()
	for left := 2; left > 1 && ctx.Err() == nil; {
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM servers").Scan(&left); err != nil {
			t.Fatal(err)
		}
	}
	mustCommit(t, h.store, createMap(t, "alone again"))
	if _, err := conn.Exec(ctx, "SELECT pg_notify($1, '-1')", h.store.peers.db.channel); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != -1 {
		t.Errorf("a notification of revision %d that nobody needs", got)
	}
}

// A server that starts while another one writes gets every event at once, however the two meet: here it never looks for
// changes without a notification.
func TestListenersComeWhileOthersWrite(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	l := startLoad(t, h.store)
	h.limits = usualLimits
	h.limits.poll = 1 << 40
	for i := range 15 {
		s := h.open(t)
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: s.revisions.current.Load()})
		if err != nil {
			t.Fatal(err)
		}
		l.more(ctx, t, int64(i%3))
		name := "last-" + strconv.Itoa(i)
		mustCommit(t, h.store, createMap(t, name))
		collect(ctx, t, w, name)
		w.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l.stop()
	// This includes the very last write, after which nothing else wakes a listener.
	for i := range 15 {
		s := h.open(t)
		made := make(chan error, 1)
		go func() {
			_, err := h.store.Commit(ctx, createMap(t, "single-"+strconv.Itoa(i)))
			made <- err
		}()
		w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: s.revisions.current.Load() - 1})
		if err != nil && !errors.As(err, new(*resources.ExpiredError)) {
			t.Fatal(err)
		}
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		if err == nil {
			collect(ctx, t, w, "single-"+strconv.Itoa(i))
			w.Close()
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A server that begins to listen waits for the running commit, which will not notify it.
func TestListenerAwaitsTheCommit(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	sees(t, h.store, 1)
	h.limits = usualLimits
	h.limits.poll, h.limits.lock = 1<<40, time.Minute
	s := h.openPeer(t)
	sees(t, s, 2)
	w, err := s.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: s.revisions.current.Load()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	conn := h.connect(t)
	var tx transaction
	var page *page
	for tx == nil { // the listener may notice and come back before the transaction begins
		if _, err := conn.Exec(ctx, unregisterSQL, s.Session().id); err != nil {
			t.Fatal(err)
		}
		h.store.applying.Lock()
		tx, page, err = h.store.db.begin(h.store.position.revision)
		h.store.applying.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if page.heard {
			tx.rollback()
			tx = nil
		}
	}
	ended := false
	defer func() {
		if !ended {
			tx.rollback()
		}
	}()
	const end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::int::oid AND objid = $2::int::oid"
	if _, err := conn.Exec(ctx, end, s.Session().class, s.Session().id); err != nil {
		t.Fatal(err)
	}
	awaitSQL(ctx, t, conn, "EXISTS (SELECT 1 FROM pg_stat_activity WHERE query = '"+awaitCommitSQL+"' AND wait_event_type = 'Lock')")
	p := &batchBuilder{state: h.store.tree, revision: page.revision}
	if _, err := p.add([]resources.Write{createMap(t, "unheard")}, expiry, h.clock.Now()); err != nil {
		t.Fatal(err)
	}
	ended = true
	if err := tx.commit(&batch{at: 1, revision: p.revision, size: p.changes[0].size(), changes: p.changes}); err != nil {
		t.Fatal(err)
	}
	collect(ctx, t, w, "unheard")
}
