package sqlstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// hogs are connections that leave none to others.
type hogs struct{ conns []*pgx.Conn }

// take takes every connection that can be had.
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

// When the database has no connection left, a server does not start and says why; one that has connections goes on with
// them, one that loses them refuses writes, and all recovers without a restart when there are some again.
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
