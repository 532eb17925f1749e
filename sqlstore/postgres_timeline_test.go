package sqlstore

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// A replaced primary that comes back and takes writes is not used, although it is named first: not for new connections,
// not by a server or a command that is started then, and not while its successor is away.
func TestReplacedPrimaryComesBack(t *testing.T) {
	ctx := testContext(t)
	h, old := newBreakable(t)
	mustCommit(t, h.store, createMap(t, "before"))
	replica := newReplica(t, old)
	h.url = pgtest.FailoverURL(old, replica)
	server := h.openPeer(t)
	awaitSQL(ctx, t, admin(t, old.URL()), "EXISTS (SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn())")
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	after := commitSoon(ctx, t, server, createMap(t, "after"))
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowlock'"
	if _, err := admin(t, replica.URL()).Exec(ctx, end); err != nil {
		t.Fatal(err)
	}
	fresh := h.openPeer(t)
	for _, s := range []*Store{server, fresh} {
		if snap := settled(ctx, t, s); snap.Get("default", "after") == nil {
			t.Error("the old primary was read from")
		}
	}
	if again := mustCommit(t, fresh, createMap(t, "again"))[0]; again.Revision != after.Revision+1 {
		t.Errorf("the revision after %d is %d", after.Revision, again.Revision)
	}
	o := h.options()
	source, err := OpenSource(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if got := source.State().Revision; got != after.Revision+1 {
		t.Errorf("a command reads revision %d, not %d", got, after.Revision+1)
	}
	f, err := openFence(ctx, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.lift() //nolint:errcheck // nothing was fenced
	var timeline string
	if err := f.conn.QueryRowContext(ctx, "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)").Scan(&timeline); err != nil || timeline != "00000002" {
		t.Errorf("a fence is on timeline %s, %v", timeline, err)
	}

	if err := replica.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	replica.Wait()
	for _, s := range []*Store{server, fresh} {
		if _, err := s.Commit(ctx, createMap(t, "lost")); !errors.Is(err, resources.ErrUnavailable) {
			t.Errorf("committed to the old primary: %v", err)
		}
		if err := s.Ready(ctx); err == nil || !strings.Contains(err.Error(), "was replaced when another one took over on timeline 2") {
			t.Errorf("ready: %v", err)
		}
	}
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	commitSoon(ctx, t, server, createMap(t, "end"))
}

// If one name leads to the primary, a server does not follow it back to a replaced primary.
func TestNameOfAReplacedPrimary(t *testing.T) {
	ctx := testContext(t)
	h, old := newBreakable(t)
	replica := newReplica(t, old)
	name := filepath.Join(t.TempDir(), "db")
	leadTo := func(c *pgtest.Cluster) {
		t.Helper()
		u, err := url.Parse(c.URL())
		if err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(name)
		if err := os.Symlink(u.Query().Get("host"), name); err != nil {
			t.Fatal(err)
		}
	}
	end := func(c *pgtest.Cluster) {
		t.Helper()
		if _, err := admin(t, c.URL()).Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowlock'"); err != nil {
			t.Fatal(err)
		}
	}
	leadTo(old)
	h.url = "postgres:///postgres?user=postgres&host=" + url.QueryEscape(name)
	s := h.openPeer(t)
	awaitSQL(ctx, t, admin(t, old.URL()), "EXISTS (SELECT 1 FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn())")
	if err := replica.Promote(); err != nil {
		t.Fatal(err)
	}
	leadTo(replica)
	end(old)
	commitSoon(ctx, t, s, createMap(t, "after"))
	leadTo(old)
	end(replica)
	if _, err := s.Commit(ctx, createMap(t, "lost")); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("committed to the old primary: %v", err)
	}
	leadTo(replica)
	commitSoon(ctx, t, s, createMap(t, "end"))
}

// Answers through an older connection, or through a pooler from elsewhere, are refused as well.
func TestPageOfAReplacedPrimary(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	db := h.store.peers.db
	conn := admin(t, c.URL())
	if _, err := conn.Exec(ctx, `SET search_path = "`+h.schema+`"`); err != nil {
		t.Fatal(err)
	}
	page, err := db.readPage(ctx, conn, 0, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	system, _, _ := strings.Cut(page.actual, "/")
	db.timelines.note(branch{system, 2})
	if _, err := db.readPage(ctx, conn, 0, 1, 1); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("a page: %v", err)
	}
	if _, err := h.store.Commit(ctx, createMap(t, "lost")); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("a commit: %v", err)
	}
	if _, err := h.store.Get(ctx, configMap("default", "none"), resources.At{}); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("a read: %v", err)
	}
}

// behindAPooler opens the connections of a server again as behind a pooler: they are not checked, since they were made
// when the URL led elsewhere. replaced makes the server know a later primary.
func (h *postgresHarness) behindAPooler(t *testing.T, c *pgtest.Cluster) (replaced func()) {
	t.Helper()
	ctx := testContext(t)
	var system string
	if err := admin(t, c.URL()).QueryRow(ctx, "SELECT system_identifier::text FROM pg_control_system()").Scan(&system); err != nil {
		t.Fatal(err)
	}
	db := h.store.peers.db
	h.store.recorder.mu.Lock()
	defer h.store.recorder.mu.Unlock()
	if _, err := h.store.janitor.task(func() (err error) {
		config := db.writes.Config()
		config.ConnConfig.ValidateConnect = nil
		config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) { return true, nil }
		if db.pool, err = db.openPool(ctx, config.Copy(), postgresReaders); err == nil {
			db.writes, err = db.openPool(ctx, config, 2)
		}
		err = errors.Join(err, h.store.db.reads.Close())
		h.store.db.reads = stdlib.OpenDBFromPool(db.pool)
		db.readers = h.store.db.reads
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return func() { db.timelines.note(branch{system, 2}) }
}

// The object history of a replaced primary, to which a pooler leads, is neither read nor written.
func TestObjectHistoryBehindAPoolerOfAReplacedPrimary(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	h.close(t)
	o := h.options()
	o.ObjectHistory = ObjectHistory{Age: time.Hour}
	h.store = mustOpen(t, o)
	replaced := h.behindAPooler(t, c)
	made := mustCommit(t, h.store, createMap(t, "a"))[0].Revision
	wantHistoryOf(t, h.store, resources.RevisionQuery{Revision: made}, "create configmaps/default/a   []")
	wrote := 0
	asks := map[string]func() error{
		"a list": func() error {
			_, _, err := h.store.ObjectHistory(ctx, resources.RevisionQuery{Name: "none"})
			return err
		},
		"the position": func() error {
			_, err := h.store.RecordedAt(ctx)
			return err
		},
		"a record": func() error { return h.store.RecordHistory(ctx) },
		"a step": func() error {
			return h.store.db.aside(ctx, h.store.onCommitter, func(context.Context, sqlConn, bool) (bool, error) { return true, nil },
				func(context.Context, sqlConn) error {
					wrote++
					return nil
				})
		},
	}
	for name, ask := range asks {
		if err := ask(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	replaced()
	for name, ask := range asks {
		if err := ask(); !errors.Is(err, resources.ErrUnavailable) || !strings.Contains(err.Error(), "was replaced when another one took over") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if wrote != 1 {
		t.Errorf("%d steps wrote", wrote)
	}
}

// A server behind a pooler that leads back to a replaced primary is not ready, neither before a failed write nor after.
func TestReadyBehindAPoolerOfAReplacedPrimary(t *testing.T) {
	ctx := testContext(t)
	h, c := newBreakable(t)
	replace := h.behindAPooler(t, c)
	if err := h.store.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	replace()
	const replaced = "was replaced when another one took over on timeline 2"
	if err := h.store.Ready(ctx); err == nil || !strings.Contains(err.Error(), replaced) {
		t.Errorf("ready: %v", err)
	}
	if _, err := h.store.Commit(ctx, createMap(t, "lost")); !errors.Is(err, resources.ErrUnavailable) {
		t.Errorf("a commit: %v", err)
	}
	if err := h.store.Ready(ctx); err == nil || !strings.Contains(err.Error(), replaced) {
		t.Errorf("ready after a write that failed: %v", err)
	}
}

// The newest timeline is recorded per cluster, and each host is asked once, whatever the ways to it.
func TestTimelinesOfHosts(t *testing.T) {
	var seen timelines
	seen.note(branch{"1", 1})
	for _, c := range []struct {
		branch
		newest uint64
	}{{branch{"1", 3}, 3}, {branch{"1", 2}, 3}, {branch{"2", 1}, 1}, {branch{"1", 2}, 3}} {
		if newest := seen.note(c.branch); newest != c.newest {
			t.Errorf("after %v the newest is %d, want %d", c.branch, newest, c.newest)
		}
	}
	config, err := parsePostgres("postgres://u@a:5432,b:5433,a:5432/db?sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, host := range eachHost(config.ConnConfig) {
		hosts = append(hosts, places(host)[1:]...)
	}
	if want := []string{"a 5432", "b 5433"}; !slices.Equal(hosts, want) {
		t.Errorf("the hosts are %v, want %v", hosts, want)
	}
}
