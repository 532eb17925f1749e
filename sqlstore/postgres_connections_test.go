package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// hogs holds connections so that none are left.
type hogs struct{ conns []*pgx.Conn }

// take takes all available connections.
func (h *hogs) take(ctx context.Context, url string) {
	for {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return
		}
		h.conns = append(h.conns, conn)
	}
}

func (h *hogs) leave() {
	for _, conn := range h.conns {
		conn.Close(context.Background())
	}
	h.conns = nil
}

// When the database has no connection left, a server does not start and says why; a server that has connections goes on
// with them, one that loses them refuses writes, and all recover without a restart when connections are free again.
func TestConnectionsExhausted(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c, err := pgtest.Options{Settings: []string{"max_connections=9", "superuser_reserved_connections=0", "max_wal_senders=0",
		"autovacuum=off"}}.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := newPostgresHarnessAt(t, c.URL())
	first := mustCommit(t, h.store, createMap(t, "first"))[0]
	watch, err := h.store.Watch(ctx, resources.WatchOptions{Resource: "configmaps", After: first.Revision})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	conn := admin(t, c.URL())
	var others hogs
	defer others.leave()
	others.take(ctx, c.URL())

	if s, err := Open(ctx, h.options()); err == nil || !strings.Contains(err.Error(), "too many clients") {
		t.Errorf("opened without a connection: %v", err)
		if err == nil {
			s.Close()
		}
	}
	mustCommit(t, h.store, createMap(t, "second"))
	if _, err := h.store.Get(ctx, first.Key, resources.At{}); err != nil {
		t.Errorf("get at most recent: %v", err)
	}

	for refused := false; !refused; {
		if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rowlock'"); err != nil {
			t.Fatal(err)
		}
		others.take(ctx, c.URL())
		_, err := h.store.Commit(ctx, createMap(t, "third"))
		if refused = errors.Is(err, resources.ErrUnavailable); refused && !strings.Contains(err.Error(), "too many clients") {
			t.Errorf("the error does not say why: %v", err)
		}
	}
	if _, err := h.store.Get(ctx, first.Key, resources.At{Match: resources.Any}); err != nil {
		t.Errorf("get at any: %v", err)
	}
	others.leave()
	commitSoon(ctx, t, h.store, createMap(t, "end"))
	if err := h.store.Ready(ctx); err != nil {
		t.Errorf("ready: %v", err)
	}
	collect(ctx, t, watch, "end")
}

// A server without clients keeps three connections, and soon only the one that listens.
func TestConnectionsAtRest(t *testing.T) {
	ctx := testContext(t)
	h := newPostgresHarness(t)
	until := func(s *Store, what string, enough func(reads, writes *pgxpool.Stat) bool) {
		t.Helper()
		for !enough(s.peers.db.pool.Stat(), s.peers.db.writes.Stat()) {
			if ctx.Err() != nil {
				t.Fatalf("%s: %d connections read, %d write", what, s.peers.db.pool.Stat().TotalConns(), s.peers.db.writes.Stat().TotalConns())
			}
			time.Sleep(5 * time.Millisecond) // a pool has no signal to wait for
		}
	}
	busy := func(s *Store) {
		t.Helper()
		if err := s.probe(ctx); err != nil { // it commits without changes
			t.Error(err)
		}
		var held []*pgxpool.Conn
		for range postgresReaders {
			conn, err := s.peers.db.pool.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, conn)
		}
		for _, conn := range held {
			conn.Release()
		}
	}
	h.limits = usualLimits
	h.limits.shrink, h.limits.rest = 50*time.Millisecond, time.Hour
	s := h.openPeer(t)
	busy(s)
	until(s, "when it rests", func(reads, writes *pgxpool.Stat) bool { return reads.TotalConns() == 1 && writes.TotalConns() == 1 })

	h.limits.shrink, h.limits.rest = time.Hour, 100*time.Millisecond
	s = h.openPeer(t)
	busy(s)
	until(s, "when it has rested", func(reads, writes *pgxpool.Stat) bool { return reads.TotalConns()+writes.TotalConns() == 0 })
	if usualLimits.rest != time.Minute {
		t.Errorf("it rests for %v", usualLimits.rest)
	}
	busy(s) // the connections are opened again
}
